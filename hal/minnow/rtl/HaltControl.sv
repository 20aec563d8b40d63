// Keeps the first error, holds the queues back until both are settled, and lets software resume.
module HaltControl
  import MinnowTypes::*;
(
    input  logic               clock,
    input  logic               reset,
    input  logic        [1:0]  failed,
    input  Verdict      [1:0]  failure,
    input  logic        [1:0][31:0] failureOpcode,
    input  logic        [1:0][9:0]  failureIndex,
    input  logic        [1:0]  settled,
    input  logic               writeResume,
    output logic        [1:0]  kept,
    output logic        [1:0]  dropped,
    output logic        [1:0]  resume,
    output logic               halting,        // From the error until it is resumed.
    output logic               halted,
    output logic               errorEvent,
    output logic        [7:0]  code,
    output logic               queue,
    output logic        [9:0]  index,
    output logic        [31:0] opcode,
    output logic        [63:0] address
);
  logic first;
  assign first = !failed[0];  // Of two at once, queue 0's is the first.

  always_comb begin
    kept = '0;
    if (!halting && failed != 0) kept[first] = 1;
    dropped = halting ? failed : '0;
    resume = '0;
    if (halted && writeResume) resume[queue] = 1;
  end
  assign errorEvent = kept != 0;

  always_ff @(posedge clock)
    if (reset || resume != 0) begin
      halting <= 0;
      halted <= 0;
      code <= '0;
      queue <= 0;
      index <= '0;
      opcode <= '0;
      address <= '0;
    end else if (errorEvent) begin
      halting <= 1;
      code <= failure[first].code;
      queue <= first;
      index <= failureIndex[first];
      opcode <= failureOpcode[first];
      address <= failure[first].address;
    end else if (halting && settled == '1) halted <= 1;
endmodule

// The 25 MHz timestamp, and its crossing into the core's clock: a Gray code, of which one bit changes at a time, through
// two flip-flops.
module Timestamp (
    input  logic        timeClock,
    input  logic        timeReset,
    input  logic        clock,
    input  logic        sample,   // Makes `value` what the counter is, two core cycles late.
    output logic [63:0] value
);
  logic [63:0] count, gray;
  always_ff @(posedge timeClock)
    if (timeReset) begin
      count <= '0;
      gray  <= '0;
    end else begin
      count <= count + 1;
      gray  <= (count + 1) ^ ((count + 1) >> 1);
    end

  logic [63:0] meta, settled;
  always_ff @(posedge clock) begin
    meta <= gray;
    settled <= meta;
    if (sample) begin
      logic [63:0] b;
      b = settled;
      for (int shift = 1; shift < 64; shift *= 2) b ^= b >> shift;
      value <= b;
    end
  end
endmodule

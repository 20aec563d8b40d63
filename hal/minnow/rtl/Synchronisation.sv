// Eight semaphores. The queues are served in turns, one a cycle, so that two that meet are served one after the other.
module Synchronisation (
    input  logic            clock,
    input  logic            reset,
    input  logic [1:0]      signal,
    input  logic [1:0]      wait_,
    input  logic [1:0][2:0] semaphoreIndex,
    output logic [1:0]      done,
    output logic [1:0]      overflow,
    output logic [1:0]      blocked     // Nothing to take.
);
  logic [7:0] count[8];
  logic       turn;

  logic [2:0] chosen;
  assign chosen = semaphoreIndex[turn];

  always_comb begin
    done = '0;
    overflow = '0;
    if (signal[turn]) begin
      overflow[turn] = count[chosen] == '1;
      done[turn] = count[chosen] != '1;
    end
    if (wait_[turn]) done[turn] = count[chosen] != 0;
    for (int q = 0; q < 2; ++q) blocked[q] = count[semaphoreIndex[q]] == 0;
  end

  always_ff @(posedge clock)
    if (reset) begin
      for (int i = 0; i < 8; ++i) count[i] <= '0;
      turn <= 0;
    end else begin
      turn <= !turn;
      if (done[turn]) count[chosen] <= signal[turn] ? count[chosen] + 1 : count[chosen] - 1;
    end
endmodule

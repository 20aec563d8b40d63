// A reset takes as long as clearing the scratchpad, and until the bus has nothing outstanding: a burst that has begun is
// completed, whatever the unit that wanted it is doing.
module ResetSequence (
    input  logic       clock,
    input  logic       powerReset,
    input  logic       softRequest,
    input  logic       pinRequest,
    input  logic       busIdle,
    output logic       active,    // Everything but bus, timestamp and this is in reset.
    output logic       bySoftware,  // … because software asked for it.
    output logic [8:0] clearRow
);
  logic cleared;
  always_ff @(posedge clock) begin
    if (powerReset || softRequest || pinRequest) begin
      active   <= 1;
      cleared  <= 0;
      bySoftware <= !(powerReset || pinRequest);
      clearRow <= '0;
    end else if (active) begin
      clearRow <= clearRow + 1;
      if (clearRow == '1) cleared <= 1;
      // Not before the cycle after: requests of the last cycle before the reset have reached the bus by then.
      if (cleared && busIdle) active <= 0;
    end
  end
endmodule

// IRQ_STATUS, IRQ_ENABLE, and the messages that follow from them.
module Interrupts (
    input  logic       clock,
    input  logic       reset,
    input  logic [2:0] event_,        // FENCE0, FENCE1, ERROR
    input  logic       writeStatus,   // 1 clears.
    input  logic       writeEnable,
    input  logic [2:0] writeData,
    output logic [2:0] status,
    output logic [2:0] enable,
    output logic [2:0] messages       // How many are sent in this cycle.
);
  logic [2:0] kept, raised;
  assign kept   = writeStatus ? status & ~writeData : status;
  assign raised = event_ & ~kept & (writeEnable ? writeData : enable);

  always_ff @(posedge clock)
    if (reset) begin
      status   <= '0;
      enable   <= '0;
      messages <= '0;
    end else begin
      status <= kept | event_;
      if (writeEnable) enable <= writeData;
      messages <= 3'(raised[0]) + 3'(raised[1]) + 3'(raised[2])
                + 3'(writeEnable && (status & writeData & ~enable) != 0);
    end
endmodule

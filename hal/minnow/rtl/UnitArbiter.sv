// Gives a unit that both queues share to one of them at a time, in turns when both want it.
module UnitArbiter (
    input  logic       clock,
    input  logic       reset,
    input  logic [1:0] request,
    input  logic       busy,      // From the cycle after `start` until after `done`.
    input  logic       done,
    output logic [1:0] start,
    output logic [1:0] ownerDone
);
  logic owner, next;  // Whose command is being executed; whose would be.
  assign next = request == '1 ? !owner : request[1];
  always_comb begin
    start = '0;
    if (!busy && request != 0) start[next] = 1;
    ownerDone = '0;
    ownerDone[owner] = done;
  end
  always_ff @(posedge clock)
    if (reset) owner <= 0;
    else if (start != 0) owner <= next;
endmodule

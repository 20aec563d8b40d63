// The one master on the host's bus. Takes whole bursts from its clients in turn, puts them on the bus, and hands beats
// that come back to the client whose id they carry. In a reset it goes on until nothing is outstanding; what comes back
// then goes nowhere.
module BusMaster
  import MinnowTypes::*;
(
    input  logic                             clock,
    input  logic                             powerReset,
    input  logic                             drain,         // A reset is going on.
    output logic                             idle,
    input  BusRequest       [busClients-1:0] request,
    output logic            [busClients-1:0] grant,
    output logic            [busClients-1:0] responseValid,
    output BusResponse                       response,
    input  logic            [busClients-1:0] responseReady,
    // The bus.
    output logic            [1:0]            busRequestId,
    output logic                             busRequestValid,
    input  logic                             busRequestReady,
    output logic                             busRequestWrite,
    output logic            [63:0]           busRequestAddress,
    output logic            [3:0]            busRequestBeats,
    output logic                             busDataValid,   // Beats of the write just requested.
    output logic            [63:0]           busData,
    output logic                             busDataLast,
    input  logic                             busResponseValid,
    output logic                             busResponseReady,
    input  logic            [1:0]            busResponseId,
    input  logic                             busResponseWrite,
    input  logic                             busResponseError,
    input  logic                             busResponseLast,
    input  logic            [63:0]           busResponseData
);
  typedef enum logic [1:0] {free, asking, sending} State;
  State          state;
  logic [511:0]  data;
  logic [3:0]    beatsLeft;
  logic [3:0]    outstanding;
  logic [1:0]    last;          // Served last; the others go first.

  // Who is next.
  logic       found;
  logic [1:0] next;
  always_comb begin
    found = 0;
    next  = last;
    for (int i = 1; i <= busClients; ++i)
      if (!found && request[2'(last + 2'(i))].valid) begin
        found = 1;
        next  = last + 2'(i);
      end
  end
  always_comb begin
    grant = '0;
    if (state == free && found && !drain) grant[next] = 1;
  end

  assign busRequestValid = state == asking;
  assign busDataValid = state == sending;
  assign busData = data[63:0];
  assign busDataLast = beatsLeft == 1;
  assign idle = state == free && outstanding == 0;

  always_ff @(posedge clock)
    if (powerReset) begin
      state <= free;
      last  <= 0;
    end else
      unique case (state)
        free:
        if (found && !drain) begin
          state <= asking;
          last  <= next;
          busRequestId <= next;
          busRequestWrite <= request[next].write;
          busRequestAddress <= request[next].address;
          busRequestBeats <= request[next].beats;
          beatsLeft <= request[next].beats;
          if (request[next].write) data <= request[next].data;
        end
        asking: if (busRequestReady) state <= busRequestWrite ? sending : free;
        default: begin
          data <= data >> 64;
          beatsLeft <= beatsLeft - 1;
          if (beatsLeft == 1) state <= free;
        end
      endcase

  assign response = '{write: busResponseWrite, error: busResponseError, last: busResponseLast, data: busResponseData};
  assign busResponseReady = drain || responseReady[busResponseId];
  always_comb begin
    responseValid = '0;
    responseValid[busResponseId] = busResponseValid && !drain;
  end

  logic begun, ended;
  assign begun = state == asking && busRequestReady;
  assign ended = busResponseValid && busResponseReady && busResponseLast;
  always_ff @(posedge clock)
    if (powerReset) outstanding <= 0;
    else if (begun != ended) outstanding <= begun ? outstanding + 1 : outstanding - 1;
endmodule

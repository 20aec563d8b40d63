// Executes DMA commands: one transfer, or a chain of descriptors, each read when the one before it has been carried out.
module DmaEngine
  import MinnowTypes::*;
(
    input  logic                    clock,
    input  logic                    reset,
    input  Errata                   errata,
    input  logic             [1:0]  start,          // By queue.
    input  Command           [1:0]  command,
    output logic                    busy,
    output logic                    done,
    output Verdict                  verdict,
    output BusRequest        [1:0]  busRequest,     // Rows, descriptors.
    input  logic             [1:0]  busGrant,
    input  logic             [1:0]  responseValid,
    input  BusResponse              response,
    output logic             [1:0]  responseReady,
    output ScratchpadRequest        scratchpadRequest,
    input  logic                    scratchpadGrant,
    input  logic             [63:0] scratchpadData,
    output logic                    readBeat,
    output logic                    readBurst,
    output logic             [3:0]  writeBeats,
    output logic                    writeBurst
);
  typedef enum logic [2:0] {idle, moving, asking, reading, check, checking} State;
  State state;

  Command      transfer;     // What is moved: the command, or a descriptor in the words of one.
  logic        chain, lastOfChain, moverStart, moverDone, checkStart, checkDone;
  Verdict      moverVerdict, checkVerdict;
  logic [63:0] descriptor, nextDescriptor;
  logic [7:0]  ordinal;      // Of the descriptor.
  logic [2:0]  beat;

  // Erratum chain-prefetch: the next descriptor is read while this one is being carried out, even behind the last.
  typedef enum logic [1:0] {none, wanted, underway, there} Prefetch;
  Prefetch           prefetch;
  logic              prefetchBad;
  logic [7:0][63:0]  prefetched;

  assign busy = state != idle;

  // ---- Descriptors ----

  logic [7:0][63:0] raw;  // As read.

  // A descriptor's words as those of a command, so that one checker does for both.
  function automatic Command commandOf(logic [7:0][63:0] d);
    Command c;
    c = '0;
    c[0] = {24'b0, d[3][32] ? opDmaStore : opDmaLoad};
    c[2] = d[0][31:0];
    c[3] = d[0][63:32];
    c[4] = d[1][31:0];
    c[5] = d[1][63:32];
    c[6] = d[2][31:0];
    c[7] = d[2][63:32];
    c[8] = d[3][31:0];
    return c;
  endfunction

  always_comb begin
    busRequest[1] = '0;
    busRequest[1].valid = state == asking || prefetch == wanted;
    busRequest[1].address = prefetch == wanted ? nextDescriptor : descriptor;
    busRequest[1].beats = 8;
  end
  assign responseReady[1] = 1;

  CommandChecker checker_ (
      .clock,
      .reset,
      .start  (checkStart),
      .command(transfer),
      .done   (checkDone),
      .verdict(checkVerdict)
  );

  function automatic Verdict failure(logic [7:0] code, logic [63:0] address);
    return '{bad: 1, code: code, address: address};
  endfunction

  always_ff @(posedge clock)
    if (reset) begin
      state <= idle;
      done <= 0;
      moverStart <= 0;
      checkStart <= 0;
      chain <= 0;
      lastOfChain <= 0;
      prefetch <= none;
    end else begin
      done <= 0;
      moverStart <= 0;
      checkStart <= 0;
      case (state)
        idle:
        if (start != 0) begin
          Command c;
          c = start[1] ? command[1] : command[0];
          transfer <= c;
          verdict <= '0;
          ordinal <= '0;
          descriptor <= {c[3], c[2]};
          chain <= c[0][7:0] == opDmaChain;
          prefetch <= none;
          if (c[0][7:0] == opDmaChain) begin
            state <= asking;
          end else begin
            moverStart <= 1;
            state <= moving;
          end
        end

        asking: begin
          beat <= '0;
          if (busGrant[1]) state <= reading;
        end
        reading:
        if (responseValid[1]) begin
          raw[beat] <= response.data;
          beat <= beat + 1;
          if (response.error) begin
            verdict <= failure(errBusError, descriptor);
            done <= 1;
            state <= idle;
          end else if (response.last) state <= check;
        end
        check: begin
          transfer <= commandOf(raw);
          lastOfChain <= raw[3][33];
          nextDescriptor <= raw[4];
          checkStart <= 1;
          state <= checking;
        end
        checking:
        if (checkDone) begin
          if (checkVerdict.bad) begin
            verdict <= checkVerdict;
            done <= 1;
            state <= idle;
          end else if (ordinal == 255 && !lastOfChain) begin
            verdict <= failure(errChainTooLong, descriptor);
            done <= 1;
            state <= idle;
          end else begin
            moverStart <= 1;
            state <= moving;
            if (errata.chainPrefetch && nextDescriptor[5:0] == 0) prefetch <= wanted;
          end
        end

        default:  // moving
        if (moverDone || (prefetch != none && finished)) begin
          if (prefetch == wanted || prefetch == underway) begin
            // Wait for it.
          end else if (moverVerdict.bad) begin
            verdict <= moverVerdict;
            done <= 1;
            state <= idle;
          end else if (prefetch == there && prefetchBad) begin
            verdict <= failure(errBusError, nextDescriptor);
            done <= 1;
            state <= idle;
          end else if (!chain || lastOfChain) begin
            done <= 1;
            state <= idle;
          end else if (nextDescriptor[5:0] != 0) begin
            verdict <= failure(errMisaligned, nextDescriptor);
            done <= 1;
            state <= idle;
          end else begin
            ordinal <= ordinal + 1;
            descriptor <= nextDescriptor;
            if (prefetch == there) begin
              raw <= prefetched;
              state <= check;
            end else state <= asking;
            prefetch <= none;
          end
        end
      endcase

      if (state == moving) begin
        if (prefetch == wanted && busGrant[1]) begin
          prefetch <= underway;
          beat <= '0;
        end
        if (prefetch == underway && responseValid[1]) begin
          prefetched[beat] <= response.data;
          beat <= beat + 1;
          if (response.last) begin
            prefetch <= there;
            prefetchBad <= response.error;
          end
        end
      end
    end

  // The mover is done, but the prefetch was not.
  logic finished;
  always_ff @(posedge clock)
    if (reset || state != moving) finished <= 0;
    else if (moverDone) finished <= 1;

  DmaMover mover (
      .clock,
      .reset,
      .errata,
      .start           (moverStart),
      .store           (transfer[0][7:0] == opDmaStore),
      .lastOfCommand   (!chain || lastOfChain),
      .hostAddress     ({transfer[3], transfer[2]}),
      .scratchpadWord  (transfer[4][15:3]),
      .rowBytes        (transfer[5][16:0]),
      .rows            (transfer[6][12:0]),
      .hostStride      (transfer[7]),
      .scratchpadStride(transfer[8][15:3]),
      .done            (moverDone),
      .verdict         (moverVerdict),
      .busRequest      (busRequest[0]),
      .busGrant        (busGrant[0]),
      .responseValid   (responseValid[0]),
      .response,
      .responseReady   (responseReady[0]),
      .scratchpadRequest,
      .scratchpadGrant,
      .scratchpadData,
      .readBeat,
      .readBurst,
      .writeBeats,
      .writeBurst
  );
endmodule

// Moves the rows of one transfer, in bursts of at most 64 bytes.
//
// Loads keep up to four bursts outstanding; what comes back is written to the scratchpad in order, and after a refused
// burst nothing more is. Stores gather the next burst from the scratchpad while the last is under way, and ask for it
// only when that has been answered: after a refused burst none is moved.
module DmaMover
  import MinnowTypes::*;
(
    input  logic             clock,
    input  logic             reset,
    input  Errata            errata,
    input  logic             start,
    input  logic             store,
    input  logic             lastOfCommand,   // For the erratum fence-overtake.
    input  logic      [63:0] hostAddress,
    input  logic      [12:0] scratchpadWord,
    input  logic      [16:0] rowBytes,
    input  logic      [12:0] rows,
    input  logic      [31:0] hostStride,
    input  logic      [12:0] scratchpadStride,   // In words, modulo the scratchpad.
    output logic             done,
    output Verdict           verdict,            // With done.
    output BusRequest        busRequest,
    input  logic             busGrant,
    input  logic             responseValid,
    input  BusResponse       response,
    output logic             responseReady,
    output ScratchpadRequest scratchpadRequest,
    input  logic             scratchpadGrant,
    input  logic      [63:0] scratchpadData,
    output logic             readBeat,
    output logic             readBurst,
    output logic      [3:0]  writeBeats,
    output logic             writeBurst
);
  logic busy, storing;

  // ---- Where the next burst begins ----

  logic [63:0] rowHost;
  logic [12:0] rowWord, word, rowsLeft;
  logic [13:0] beatsOfRow, beatsLeft;
  logic [63:0] host;
  logic [31:0] hostStep;
  logic [12:0] wordStep;
  logic [3:0]  beats;
  logic        walking, walk;       // There is another burst; it has been taken.
  assign beats = beatsLeft > 8 ? 4'd8 : beatsLeft[3:0];

  always_ff @(posedge clock)
    if (reset) walking <= 0;
    else if (start) begin
      walking <= 1;
      rowHost <= hostAddress;
      host <= hostAddress;
      rowWord <= scratchpadWord;
      word <= scratchpadWord;
      rowsLeft <= rows;
      beatsOfRow <= rowBytes[16:3];
      beatsLeft <= rowBytes[16:3];
      hostStep <= hostStride;
      wordStep <= scratchpadStride;
    end else if (stop) walking <= 0;
    else if (walk) begin
      if (beatsLeft > 8) begin
        beatsLeft <= beatsLeft - 8;
        host <= host + 64;
        word <= word + 8;
      end else begin
        beatsLeft <= beatsOfRow;
        rowsLeft <= rowsLeft - 1;
        rowHost <= rowHost + 64'(hostStep);
        host <= rowHost + 64'(hostStep);
        rowWord <= rowWord + wordStep;
        word <= rowWord + wordStep;
        if (rowsLeft == 1) walking <= 0;
      end
    end

  // Erratum dma-4k-last-beat: the burst that a 4 KiB boundary splits is a beat short.
  logic [12:0] pageOffset;
  logic        crosses;
  assign pageOffset = {1'b0, host[11:0]} + {6'b0, beats, 3'b0};
  assign crosses = errata.dma4kLastBeat && pageOffset > 13'h1000;

  // ---- Loads: what is outstanding ----

  typedef struct packed {
    logic [63:0] host;
    logic [12:0] word;
    logic        short_;
  } Outstanding;
  Outstanding queue[4];
  logic [1:0] in, out;
  logic [2:0] waiting;
  logic       push, pop;
  Outstanding front;
  logic [2:0] loadBeat;

  // ---- Stores ----

  logic [511:0] gathered;
  logic [3:0]   gatherAsked, gatherGot, gatherBeats, gatherSent;
  logic [63:0]  gatherHost, sentHost;
  logic [12:0]  gatherWord;
  logic         gathering, gatherReady, gatherArrives, sent, gatherLast;
  logic [3:0]   sentBeats;
  logic [7:0]   posted;            // Stores nobody waits for (erratum).
  logic         answersPosted;

  // ---- Failure ----

  logic failed, stop, mine;
  assign mine = responseValid && !answersPosted;
  assign stop = busy && mine && response.error;

  assign front = queue[out];
  assign push = busy && !storing && walking && waiting < 4 && !failed && busGrant;
  assign pop = busy && !storing && mine && response.last && responseReady;
  assign walk = push || (storing && walking && !gathering && !gatherReady);

  always_comb begin
    busRequest = '0;
    if (storing) begin
      busRequest.valid = busy && gatherReady && !sent && !failed && !stop;
      busRequest.write = 1;
      busRequest.address = gatherHost;
      busRequest.beats = gatherSent;
      busRequest.data = gathered;
    end else begin
      busRequest.valid = busy && walking && waiting < 4 && !failed && !stop;
      busRequest.address = host;
      busRequest.beats = beats;
    end
  end

  logic loadWrites, loadShort;
  assign loadShort = front.short_ && response.last;
  assign loadWrites = busy && !storing && mine && !response.error && !failed && !loadShort;
  assign responseReady = storing || !loadWrites || scratchpadGrant;

  always_comb begin
    scratchpadRequest = '0;
    if (storing) begin
      scratchpadRequest.valid = gathering && gatherAsked != gatherBeats;
      scratchpadRequest.word = gatherWord;
    end else if (loadWrites) begin
      scratchpadRequest.valid = 1;
      scratchpadRequest.write = 1;
      scratchpadRequest.word = front.word + 13'(loadBeat);
      scratchpadRequest.enable = '1;
      scratchpadRequest.data = response.data;
    end
  end

  // Erratum fence-overtake: nobody waits for the answer to the last burst of a command.
  logic postedNow;
  assign postedNow = errata.fenceOvertake && lastOfCommand && gatherLast && storing && busRequest.valid && busGrant;
  assign answersPosted = posted != 0 && responseValid && response.write;

  always_ff @(posedge clock)
    if (reset) begin
      busy <= 0;
      failed <= 0;
      waiting <= 0;
      gathering <= 0;
      gatherReady <= 0;
      gatherArrives <= 0;
      sent <= 0;
      posted <= 0;
      storing <= 0;
      done <= 0;
      in <= 0;
      out <= 0;
      loadBeat <= 0;
    end else begin
      done <= 0;
      if (answersPosted) posted <= posted - 1;
      if (start) begin
        busy <= 1;
        storing <= store;
        failed <= 0;
        verdict <= '0;
      end else if (busy) begin
        if (stop && !failed) begin
          failed <= 1;
          verdict <= '{bad: 1, code: errBusError, address: storing ? sentHost : front.host};
        end

        // Loads.
        if (push) begin
          queue[in] <= '{host: host, word: word, short_: crosses};
          in <= in + 1;
        end
        if (push != pop) waiting <= push ? waiting + 1 : waiting - 1;
        if (!storing && mine && responseReady) begin
          loadBeat <= loadBeat + 1;
          if (response.last) begin
            loadBeat <= 0;
            out <= out + 1;
          end
        end

        // Stores: gather …
        if (storing && walk) begin
          gathering <= 1;
          gatherBeats <= beats;
          gatherSent <= crosses ? beats - 1 : beats;
          gatherHost <= host;
          gatherWord <= word;
          gatherAsked <= 0;
          gatherGot <= 0;
          gatherLast <= rowsLeft == 1 && beatsLeft <= 8;
        end
        gatherArrives <= storing && scratchpadGrant;
        if (storing && scratchpadGrant) begin
          gatherAsked <= gatherAsked + 1;
          gatherWord <= gatherWord + 1;
        end
        if (gatherArrives) begin
          gathered[{gatherGot[2:0], 6'b0}+:64] <= scratchpadData;
          gatherGot <= gatherGot + 1;
          if (gatherGot + 1 == gatherBeats) begin
            gathering <= 0;
            gatherReady <= 1;
          end
        end
        // … send …
        if (storing && busRequest.valid && busGrant) begin
          sentHost <= gatherHost;
          sentBeats <= gatherBeats;
          gatherReady <= 0;
          sent <= !postedNow;
          if (postedNow) posted <= answersPosted ? posted : posted + 1;
        end
        // … and hear of it.
        if (storing && mine) sent <= 0;

        if (storing ? !gathering && !gatherReady && !sent && (!walking || failed) && !gatherArrives
                    : waiting == 0 && (!walking || failed)) begin
          busy <= 0;
          done <= 1;
        end
        if (storing && failed) begin
          gathering <= 0;
          gatherReady <= 0;
        end
      end
    end

  logic moved;
  assign moved = busy && storing && sent && mine && !response.error;
  assign readBeat = busy && !storing && mine && responseReady && !response.error && !failed;
  assign readBurst = readBeat && response.last;
  assign writeBurst = moved || postedNow;
  assign writeBeats = moved ? sentBeats : postedNow ? gatherBeats : '0;
endmodule

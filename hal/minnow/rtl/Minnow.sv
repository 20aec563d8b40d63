// Minnow: everything connected. The manual is SPEC.md.
module Minnow
  import MinnowTypes::*;
(
    input  logic        clock,              // 100 MHz
    input  logic        timeClock,          // 25 MHz
    input  logic        powerReset,
    input  logic        pinReset,           // What SOFT_RESET does, from outside.
    input  logic [7:0]  errata,             // ERRATA.md; constant.
    // Registers.
    input  logic        registerValid,
    input  logic        registerWrite,
    input  logic [15:0] registerAddress,
    input  logic [31:0] registerWriteData,
    output logic [31:0] registerReadData,
    // Host memory.
    output logic [1:0]  busRequestId,
    output logic        busRequestValid,
    input  logic        busRequestReady,
    output logic        busRequestWrite,
    output logic [63:0] busRequestAddress,
    output logic [3:0]  busRequestBeats,
    output logic        busDataValid,
    output logic [63:0] busData,
    output logic        busDataLast,
    input  logic        busResponseValid,
    output logic        busResponseReady,
    input  logic [1:0]  busResponseId,
    input  logic        busResponseWrite,
    input  logic        busResponseError,
    input  logic        busResponseLast,
    input  logic [63:0] busResponseData,
    // Messages on vector 0 in this cycle.
    output logic [2:0]  messages,
    output logic        resetting,
    output logic        still               // Nothing will happen by itself.
);
  Errata wrong;
  assign wrong = errata;

  // ---- Reset ----

  logic softReset, resetIsSoft, busIdle;
  logic [8:0] clearRow;
  ResetSequence resets (
      .clock,
      .powerReset,
      .softRequest(softReset),
      .pinRequest(pinReset),
      .busIdle,
      .active(resetting),
      .bySoftware(resetIsSoft),
      .clearRow
  );

  // ---- Registers ----

  logic enable, resume, halted, halting, dmaBusy, irqStatusWrite, irqEnableWrite, counterWrite, freeze, timeSample;
  logic [1:0] queueBusy, queueWrite;
  logic [3:0] queueRegister, counterSelect;
  logic [1:0][31:0] queueRead;
  logic [2:0] irqStatus, irqEnable;
  logic [7:0] errorCode;
  logic errorQueue, errorEvent;
  logic [9:0] errorIndex;
  logic [31:0] errorOpcode;
  logic [63:0] errorAddress, counter, timeValue;
  ScratchpadRequest debugRequest;
  logic [clients-1:0][63:0] scratchpadData;

  Registers registers (
      .clock,
      .powerReset,
      .reset(resetting),
      .valid(registerValid),
      .write(registerWrite),
      .address(registerAddress),
      .writeData(registerWriteData),
      .readData(registerReadData),
      .enable,
      .softReset,
      .resume,
      .halted,
      .queueBusy,
      .dmaBusy,
      .queueWrite,
      .queueRegister,
      .queueRead,
      .irqStatusWrite,
      .irqEnableWrite,
      .irqStatus,
      .irqEnable,
      .errorCode,
      .errorQueue,
      .errorIndex,
      .errorOpcode,
      .errorAddress,
      .counterWrite,
      .counterSelect,
      .freeze,
      .counter,
      .timeSample,
      .timeValue,
      .debugRequest,
      .debugData(scratchpadData[clientDebug])
  );

  Timestamp timestamp (
      .timeClock,
      .timeReset(powerReset),
      .clock,
      .sample(timeSample),
      .value(timeValue)
  );

  // ---- Queues ----

  Command     [1:0]       command;
  Verdict     [1:0]       failure;
  logic       [1:0][31:0] failureOpcode;
  logic       [1:0][9:0]  failureIndex;
  logic       [1:0]       settled, failed, kept, dropped, resumed, signal, wait_, syncDone, overflow, noneToTake,
                          inBarrier, fenceEvent, completed, blocked, queueStill, full, queueEmpty;
  logic       [1:0][2:0]  semaphoreIndex, unitRequest, unitStart, unitDone;
  Verdict                 dmaVerdict;

  BusRequest  [busClients-1:0] busRequest;
  logic       [busClients-1:0] busGrant, responseValid, responseReady;
  BusResponse                  response;

  for (genvar q = 0; q < 2; ++q) begin : queue
    CommandQueue #(.second(q == 1)) machine (
        .clock,
        .reset(resetting),
        .softReset(resetIsSoft),
        .errata(wrong),
        .write(queueWrite[q]),
        .register_(queueRegister),
        .writeData(registerWriteData),
        .readData(queueRead[q]),
        .busy(queueBusy[q]),
        .run(enable && !halting),
        .halting,
        .settled(settled[q]),
        .failed(failed[q]),
        .failure(failure[q]),
        .failureOpcode(failureOpcode[q]),
        .failureIndex(failureIndex[q]),
        .failureKept(kept[q]),
        .failureDropped(dropped[q]),
        .resume(resumed[q]),
        .busRequest(busRequest[q]),
        .busGrant(busGrant[q]),
        .responseValid(responseValid[q]),
        .response,
        .command(command[q]),
        .unitRequest(unitRequest[q]),
        .unitStart(unitStart[q]),
        .unitDone(unitDone[q]),
        .unitVerdict(unitDone[q][0] ? dmaVerdict : '0),
        .signal(signal[q]),
        .wait_(wait_[q]),
        .semaphoreIndex(semaphoreIndex[q]),
        .syncDone(syncDone[q]),
        .signalOverflow(overflow[q]),
        .inBarrier(inBarrier[q]),
        .otherInBarrier(inBarrier[1-q]),
        .waitBlocked(noneToTake[q]),
        .fenceEvent(fenceEvent[q]),
        .completed(completed[q]),
        .blocked(blocked[q]),
        .still(queueStill[q]),
        .empty(queueEmpty[q]),
        .full(full[q]),
        .otherFull(full[1-q])
    );
    assign responseReady[q] = 1;
  end

  Synchronisation synchronisation (
      .clock,
      .reset(resetting),
      .signal,
      .wait_,
      .semaphoreIndex,
      .done(syncDone),
      .overflow,
      .blocked(noneToTake)
  );

  HaltControl halts (
      .clock,
      .reset(resetting),
      .failed,
      .failure,
      .failureOpcode,
      .failureIndex,
      .settled,
      .writeResume(resume),
      .kept,
      .dropped,
      .resume(resumed),
      .halting,
      .halted,
      .errorEvent,
      .code(errorCode),
      .queue(errorQueue),
      .index(errorIndex),
      .opcode(errorOpcode),
      .address(errorAddress)
  );

  Interrupts interrupts (
      .clock,
      .reset(resetting),
      .event_({errorEvent, fenceEvent}),
      .writeStatus(irqStatusWrite),
      .writeEnable(irqEnableWrite),
      .writeData(registerWriteData[2:0]),
      .status(irqStatus),
      .enable(irqEnable),
      .messages
  );

  // ---- Units: 0 DMA, 1 GEMM, 2 vector ----

  logic [2:0] unitBusy, unitEnds;
  logic [2:0][1:0] starts;
  for (genvar u = 0; u < 3; ++u) begin : unit_
    logic [1:0] ownerDone;
    UnitArbiter arbiter (
        .clock,
        .reset(resetting),
        .request({unitRequest[1][u], unitRequest[0][u]}),
        .busy(unitBusy[u]),
        .done(unitEnds[u]),
        .start(starts[u]),
        .ownerDone
    );
    for (genvar q = 0; q < 2; ++q) begin : side
      assign unitStart[q][u] = starts[u][q];
      assign unitDone[q][u] = ownerDone[q];
    end
  end
  assign dmaBusy = unitBusy[0];

  ScratchpadRequest [clients-1:0] scratchpadRequest;
  logic [clients-1:0] scratchpadGrant;
  logic [2:0] conflicts;
  CounterEvents events;
  logic readBeat, readBurst, writeBurst;
  logic [3:0] writeBeats;
  logic [29:0] macs;

  assign scratchpadRequest[clientDebug] = debugRequest;
  Scratchpad scratchpad (
      .clock,
      .clear(resetting),
      .clearRow,
      .stale(wrong.staleScratchpad),
      .request(scratchpadRequest),
      .grant(scratchpadGrant),
      .readData(scratchpadData),
      .conflicts
  );

  DmaEngine dma (
      .clock,
      .reset(resetting),
      .errata(wrong),
      .start(starts[0]),
      .command,
      .busy(unitBusy[0]),
      .done(unitEnds[0]),
      .verdict(dmaVerdict),
      .busRequest(busRequest[busChain:busMover]),
      .busGrant(busGrant[busChain:busMover]),
      .responseValid(responseValid[busChain:busMover]),
      .response,
      .responseReady(responseReady[busChain:busMover]),
      .scratchpadRequest(scratchpadRequest[clientDma]),
      .scratchpadGrant(scratchpadGrant[clientDma]),
      .scratchpadData(scratchpadData[clientDma]),
      .readBeat,
      .readBurst,
      .writeBeats,
      .writeBurst
  );

  GemmUnit gemm (
      .clock,
      .reset(resetting),
      .start(starts[1]),
      .command,
      .busy(unitBusy[1]),
      .done(unitEnds[1]),
      .macs,
      .request(scratchpadRequest[clientGemmB:clientGemmA]),
      .grant(scratchpadGrant[clientGemmB:clientGemmA]),
      .readData(scratchpadData[clientGemmB:clientGemmA])
  );

  VectorUnit vector (
      .clock,
      .reset(resetting),
      .requantWrap(wrong.requantWrap),
      .start(starts[2]),
      .command,
      .busy(unitBusy[2]),
      .done(unitEnds[2]),
      .request(scratchpadRequest[clientVector]),
      .grant(scratchpadGrant[clientVector]),
      .readData(scratchpadData[clientVector])
  );

  // ---- The bus ----

  BusMaster bus (
      .clock,
      .powerReset,
      .drain(resetting),
      .idle(busIdle),
      .request(busRequest),
      .grant(busGrant),
      .responseValid,
      .response,
      .responseReady,
      .busRequestId,
      .busRequestValid,
      .busRequestReady,
      .busRequestWrite,
      .busRequestAddress,
      .busRequestBeats,
      .busDataValid,
      .busData,
      .busDataLast,
      .busResponseValid,
      .busResponseReady,
      .busResponseId,
      .busResponseWrite,
      .busResponseError,
      .busResponseLast,
      .busResponseData
  );

  // ---- Counters ----

  // Erratum counter-stall: a beat that had to wait for the scratchpad is not counted.
  logic dmaLost, beatStalled;
  assign dmaLost = scratchpadRequest[clientDma].valid && scratchpadRequest[clientDma].write && !scratchpadGrant[clientDma];
  always_ff @(posedge clock) beatStalled <= dmaLost;

  always_comb begin
    events.macs = unitEnds[1] ? macs : '0;
    events.arrayBusy = unitBusy[1];
    events.readBeat = readBeat && !(wrong.counterStall && beatStalled);
    events.readBurst = readBurst;
    events.writeBeats = writeBeats;
    events.writeBurst = writeBurst;
    events.dmaBusy = unitBusy[0];
    events.waitSync = 2'(blocked[0]) + 2'(blocked[1]);
    events.waitQueue = 2'(queueEmpty[0]) + 2'(queueEmpty[1]);
    events.waitScratchpad = conflicts;
    events.commands = 2'(completed[0]) + 2'(completed[1]);
  end

  Counters counters (
      .clock,
      .reset(resetting),
      .enabled(enable),
      .events,
      .writeControl(counterWrite),
      .writeData(registerWriteData[2:0]),
      .select(counterSelect),
      .freeze,
      .selected(counter)
  );

  assign still = !resetting && queueStill == '1 && unitBusy == 0 && busIdle && !busRequestValid
              && !(halting && !halted) && messages == 0;
endmodule

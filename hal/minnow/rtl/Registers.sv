// The register slave: decodes offsets, keeps what belongs to nobody else, and drives the debug port.
//
// An access is one cycle of `valid`; what a read gives is on `readData` from the third cycle behind it.
module Registers
  import MinnowTypes::*;
(
    input  logic              clock,
    input  logic              powerReset,
    input  logic              reset,          // A reset is going on.
    input  logic              valid,
    input  logic              write,
    input  logic       [15:0] address,
    input  logic       [31:0] writeData,
    output logic       [31:0] readData,
    // CONTROL and STATUS.
    output logic              enable,
    output logic              softReset,
    output logic              resume,
    input  logic              halted,
    input  logic       [1:0]  queueBusy,
    input  logic              dmaBusy,
    // Queues.
    output logic       [1:0]  queueWrite,
    output logic       [3:0]  queueRegister,
    input  logic [1:0][31:0]  queueRead,
    // Interrupts.
    output logic              irqStatusWrite,
    output logic              irqEnableWrite,
    input  logic       [2:0]  irqStatus,
    input  logic       [2:0]  irqEnable,
    // The error.
    input  logic       [7:0]  errorCode,
    input  logic              errorQueue,
    input  logic       [9:0]  errorIndex,
    input  logic       [31:0] errorOpcode,
    input  logic       [63:0] errorAddress,
    // Counters.
    output logic              counterWrite,
    output logic       [3:0]  counterSelect,
    input  logic              freeze,
    input  logic       [63:0] counter,
    // Timestamp.
    output logic              timeSample,
    input  logic       [63:0] timeValue,
    // Debug port.
    output ScratchpadRequest  debugRequest,
    input  logic       [63:0] debugData
);
  localparam logic [15:0] id = 16'h000, version = 16'h004, caps = 16'h008, control = 16'h00c, status = 16'h010,
                          irqStatusAt = 16'h014, irqEnableAt = 16'h018, errCode = 16'h020, errQueue = 16'h024,
                          errIndex = 16'h028, errOpcode = 16'h02c, errLow = 16'h030, errHigh = 16'h034,
                          debugAddressAt = 16'h040, debugDataAt = 16'h044, timeLow = 16'h050, timeHigh = 16'h054,
                          counterControl = 16'h200;

  logic inQueue, inCounters, writes, reads;
  assign inQueue = address >= 16'h100 && address < 16'h180;
  assign inCounters = address >= 16'h240 && address < 16'h2a0;
  assign writes = valid && write && !reset;
  assign reads = valid && !write && !reset;

  assign softReset = writes && address == control && writeData[1];
  assign resume = writes && address == control && writeData[3];
  assign queueWrite = writes && inQueue ? (address[6] ? 2'b10 : 2'b01) : 2'b00;
  assign queueRegister = address[5:2];
  assign irqStatusWrite = writes && address == irqStatusAt;
  assign irqEnableWrite = writes && address == irqEnableAt;
  assign counterWrite = writes && address == counterControl;
  assign counterSelect = 4'((address - 16'h240) >> 3);
  assign timeSample = reads && address == timeLow;

  logic [13:0] debugAddress;   // In 32-bit words.
  logic [31:0] timeLatched;
  logic        debugAllowed, readsDebug;
  assign debugAllowed = halted || !enable;
  assign readsDebug = reads && address == debugDataAt && debugAllowed;

  always_comb begin
    debugRequest = '0;
    debugRequest.valid = readsDebug || (writes && address == debugDataAt && debugAllowed);
    debugRequest.write = write;
    debugRequest.word = debugAddress[13:1];
    debugRequest.enable = debugAddress[0] ? 8'hf0 : 8'h0f;
    debugRequest.data = {writeData, writeData};
  end

  logic [31:0] plain;  // What a read without a side effect gives.
  always_comb begin
    plain = '0;
    if (inQueue) plain = queueRead[address[6]];
    else if (inCounters) plain = address[2] ? counter[63:32] : counter[31:0];
    else
      case (address)
        id: plain = 32'h4d4e5731;
        version: plain = 32'h00010000;
        caps: plain = 32'h00400802;
        control: plain = 32'(enable);
        status:
        plain = {reset, 20'b0, dmaBusy, queueBusy, 5'b0, queueBusy == 0, halted, enable};
        irqStatusAt: plain = 32'(irqStatus);
        irqEnableAt: plain = 32'(irqEnable);
        errCode: plain = 32'(errorCode);
        errQueue: plain = 32'(errorQueue);
        errIndex: plain = 32'(errorIndex);
        errOpcode: plain = errorOpcode;
        errLow: plain = errorAddress[31:0];
        errHigh: plain = errorAddress[63:32];
        debugAddressAt: plain = {16'b0, debugAddress, 2'b0};
        debugDataAt: plain = '1;
        timeHigh: plain = timeLatched;
        counterControl: plain = 32'(freeze);
        default: ;
      endcase
  end

  // A read's data comes from here, from the timestamp, or from the scratchpad a cycle later.
  logic fromTime, fromDebug, debugHigh;
  always_ff @(posedge clock) begin
    fromTime  <= timeSample;
    fromDebug <= readsDebug;
    debugHigh <= debugAddress[0];
    if (valid && !write) readData <= plain;
    if (fromTime) readData <= timeValue[31:0];
    if (fromDebug) readData <= debugHigh ? debugData[63:32] : debugData[31:0];

    if (reset || powerReset) begin
      enable <= 0;
      debugAddress <= '0;
      timeLatched <= '0;
    end else begin
      if (writes && address == control) enable <= writeData[0];
      if (writes && address == debugAddressAt) debugAddress <= writeData[15:2];
      else if (debugRequest.valid) debugAddress <= debugAddress + 1;
      if (fromTime) timeLatched <= timeValue[63:32];
    end
  end
endmodule

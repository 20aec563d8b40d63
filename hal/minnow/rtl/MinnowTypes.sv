// What Minnow's modules have in common: the words of the manual (SPEC.md) as constants and types.
package MinnowTypes;

  // A command: sixteen 32-bit words, w0 lowest.
  typedef logic [15:0][31:0] Command;

  localparam logic [7:0] opNop = 8'h00, opDmaLoad = 8'h01, opDmaStore = 8'h02, opDmaChain = 8'h03,
                         opGemm = 8'h10,
                         opVadd32 = 8'h20, opVadd8 = 8'h21, opRelu8 = 8'h22, opRequant = 8'h23, opMaxpool8 = 8'h24,
                         opFence = 8'h30, opSignal = 8'h31, opWait = 8'h32, opBarrier = 8'h33;

  localparam logic [7:0] errBadOpcode = 1, errBadArgument = 2, errMisaligned = 3, errOutOfRange = 4,
                         errBusError = 5, errChainTooLong = 6, errSemaphoreOverflow = 7;

  // Result of a check or of an execution.
  typedef struct packed {
    logic        bad;
    logic [7:0]  code;
    logic [63:0] address;
  } Verdict;

  // One access to the scratchpad: 8 bytes at a word address. A read's data is there in the cycle after its grant.
  typedef struct packed {
    logic        valid;
    logic        write;
    logic [12:0] word;
    logic [7:0]  enable;  // Bytes written.
    logic [63:0] data;
  } ScratchpadRequest;

  // Clients of the scratchpad. The GEMM unit has two ports.
  localparam int clientDebug = 0, clientDma = 1, clientGemmA = 2, clientGemmB = 3, clientVector = 4, clients = 5;

  // One burst. Data of a write travels with its request, so that a burst once begun never waits for its unit.
  typedef struct packed {
    logic         valid;
    logic         write;
    logic [63:0]  address;
    logic [3:0]   beats;  // 1 to 8
    logic [511:0] data;   // First beat lowest.
  } BusRequest;

  // Beats that come back. A write, and a burst that was refused, is answered by one beat.
  typedef struct packed {
    logic        write;
    logic        error;
    logic        last;
    logic [63:0] data;
  } BusResponse;

  // Who asks for bursts; also the transaction id on the bus. Same id: in order. Different ids: in any order.
  // 0 and 1 are the queues (commands, fences).
  localparam int busMover = 2, busChain = 3, busClients = 4;

  // What the device can be told to do wrong (ERRATA.md). All zero: nothing.
  typedef struct packed {
    logic resetHead;
    logic chainPrefetch;
    logic wrapFullHang;
    logic counterStall;
    logic staleScratchpad;
    logic fenceOvertake;
    logic requantWrap;
    logic dma4kLastBeat;
  } Errata;

  // What the units report to the counters, each cycle.
  typedef struct packed {
    logic [29:0] macs;          // Of a GEMM completed in this cycle.
    logic        arrayBusy;
    logic        readBeat;      // 8 bytes of a DMA row …
    logic        readBurst;
    logic [3:0]  writeBeats;
    logic        writeBurst;
    logic        dmaBusy;
    logic [1:0]  waitSync;      // Queues.
    logic [1:0]  waitQueue;
    logic [2:0]  waitScratchpad;
    logic [1:0]  commands;
  } CounterEvents;

  // Bytes in the first `count` of eight lanes.
  function automatic logic [7:0] lanes(logic [3:0] count);
    return count >= 8 ? 8'hff : 8'((9'd1 << count) - 9'd1);
  endfunction

endpackage

// One queue: its registers, and the machine that fetches the command at HEAD and executes it to its end. DMA, GEMM and
// vector commands are given to the unit; the rest is done here.
module CommandQueue
  import MinnowTypes::*;
#(
    parameter logic second = 0   // Which of the two this is.
) (
    input  logic               clock,
    input  logic               reset,
    input  logic               softReset,        // What kind of reset that is.
    input  Errata              errata,
    // Registers.
    input  logic               write,
    input  logic        [3:0]  register_,        // Offset in words.
    input  logic        [31:0] writeData,
    output logic        [31:0] readData,
    output logic               busy,
    // Whether commands may be started, and what stops them.
    input  logic               run,              // ENABLE, and no error.
    input  logic               halting,
    output logic               settled,          // No command is running, or it is blocked in WAIT or BARRIER.
    output logic               failed,           // Until the halt unit answers.
    output Verdict             failure,
    output logic        [31:0] failureOpcode,
    output logic        [9:0]  failureIndex,
    input  logic               failureKept,      // This failure is the one reported …
    input  logic               failureDropped,   // … or the other queue's was first.
    input  logic               resume,           // Skip the failed command.
    // The bus: commands and fences.
    output BusRequest          busRequest,
    input  logic               busGrant,
    input  logic               responseValid,
    input  BusResponse         response,
    // Units: DMA, GEMM, vector.
    output Command             command,
    output logic        [2:0]  unitRequest,
    input  logic        [2:0]  unitStart,        // The unit has taken the command.
    input  logic        [2:0]  unitDone,
    input  Verdict             unitVerdict,      // With unitDone; only DMA fails.
    // Semaphores and the barrier.
    output logic               signal,
    output logic               wait_,
    output logic        [2:0]  semaphoreIndex,
    input  logic               syncDone,
    input  logic               signalOverflow,
    output logic               inBarrier,
    input  logic               otherInBarrier,
    input  logic               waitBlocked,
    // Events.
    output logic               fenceEvent,
    output logic               completed,
    output logic               blocked,          // In WAIT or BARRIER.
    output logic               still,            // Nothing will happen here by itself.
    // Erratum wrap-full-hang.
    output logic               empty,            // But on.
    output logic               full,
    input  logic               otherFull
);
  typedef enum logic [3:0] {
    idle, fetching, receiving, checking, waitingForUnit, executing, fencing, fenced, signalling, waiting, atBarrier,
    completing, failing, halted
  } State;
  State state;

  logic [63:0] base;
  logic [10:0] size;
  logic [9:0]  head, tail, mask;
  logic [31:0] done;
  logic        hung;
  logic [2:0]  beat;

  assign mask = size[9:0] - 1;
  assign busy = head != tail;
  assign empty = size != 0 && !busy;
  assign full = size != 0 && ((tail + 1) & mask) == head;

  // ---- Registers ----

  localparam logic [3:0] baseLow = 0, baseHigh = 1, sizeRegister = 2, headRegister = 3, tailRegister = 4, doorbell = 5,
                         doneRegister = 6;

  function automatic logic [10:0] legalSize(logic [31:0] value);
    for (int bits = 1; bits <= 10; ++bits) if (value == 32'd1 << bits) return value[10:0];
    return '0;
  endfunction

  always_comb
    case (register_)
      baseLow: readData = base[31:0];
      baseHigh: readData = base[63:32];
      sizeRegister: readData = 32'(size);
      headRegister: readData = 32'(head);
      tailRegister: readData = 32'(tail);
      doneRegister: readData = done;
      default: readData = '0;
    endcase

  // ---- The command as its words say ----

  logic [7:0] opcode;
  logic       checkStart, checkDone;
  Verdict     checkVerdict;
  assign opcode = command[0][7:0];
  assign semaphoreIndex = command[2][2:0];
  CommandChecker checker_ (
      .clock,
      .reset,
      .start  (checkStart),
      .command,
      .done   (checkDone),
      .verdict(checkVerdict)
  );

  function automatic logic [2:0] unitOf(logic [7:0] code);
    case (code)
      opDmaLoad, opDmaStore, opDmaChain: return 3'b001;
      opGemm: return 3'b010;
      opVadd32, opVadd8, opRelu8, opRequant, opMaxpool8: return 3'b100;
      default: return 3'b000;
    endcase
  endfunction

  // ---- What goes out ----

  assign unitRequest = state == waitingForUnit ? unitOf(opcode) : '0;
  assign signal = state == signalling;
  assign wait_ = state == waiting;
  assign inBarrier = state == atBarrier;
  assign blocked = (state == waiting && waitBlocked) || (state == atBarrier && !otherInBarrier);
  assign settled = state == idle || state == halted || blocked;
  assign still = blocked || state == halted || (state == idle && !(run && !hung && busy && size != 0));
  assign failed = state == failing;
  assign failureOpcode = command[0];
  assign failureIndex = head;
  assign completed = state == completing;

  always_comb begin
    busRequest = '0;
    busRequest.valid = state == fetching || state == fencing;
    busRequest.write = state == fencing;
    busRequest.address = state == fencing ? {command[3], command[2]} : base + {48'b0, head, 6'b0};
    busRequest.beats = state == fencing ? 1 : 8;
    busRequest.data[63:0] = {command[5], command[4]};
  end

  function automatic State firstStateOf(logic [7:0] code);
    case (code)
      opNop: return completing;
      opFence: return fencing;
      opSignal: return signalling;
      opWait: return waiting;
      opBarrier: return atBarrier;
      default: return waitingForUnit;
    endcase
  endfunction

  // ---- The machine ----

  always_ff @(posedge clock)
    if (reset) begin
      state <= idle;
      command <= '0;
      base <= '0;
      size <= '0;
      tail <= '0;
      done <= '0;
      hung <= 0;
      fenceEvent <= 0;
      checkStart <= 0;
      // Erratum reset-head: the second queue's HEAD was forgotten in a soft reset.
      if (!(errata.resetHead && second && softReset)) head <= '0;
    end else begin
      fenceEvent <= 0;
      checkStart <= 0;
      case (state)
        idle:
        if (run && !hung && busy && size != 0) begin
          state <= fetching;
          beat  <= 0;
        end
        fetching: if (busGrant) state <= receiving;
        receiving:
        if (responseValid) begin
          command[{beat, 1'b0}] <= response.data[31:0];
          command[{beat, 1'b1}] <= response.data[63:32];
          beat <= beat + 1;
          if (halting && response.last) state <= idle;  // Not begun: fetched again after the halt.
          else if (response.error) begin
            failure <= '{bad: 1, code: errBusError, address: base + {48'b0, head, 6'b0}};
            command[0] <= '0;
            state <= failing;
          end else if (response.last) begin
            checkStart <= 1;
            state <= checking;
          end
        end
        checking:
        if (checkDone) begin
          failure <= checkVerdict;
          if (halting) state <= idle;
          else if (checkVerdict.bad) state <= failing;
          else state <= firstStateOf(opcode);
        end
        waitingForUnit:
        if ((unitStart & unitRequest) != 0) state <= executing;
        else if (halting) state <= idle;
        executing:
        if ((unitDone & unitOf(opcode)) != 0) begin
          failure <= unitVerdict;
          state <= unitVerdict.bad ? failing : completing;
        end
        fencing: if (busGrant) state <= fenced;
        fenced:
        if (responseValid) begin
          failure <= '{bad: 1, code: errBusError, address: {command[3], command[2]}};
          fenceEvent <= !response.error && command[0][8];
          state <= response.error ? failing : completing;
        end
        signalling: begin
          failure <= '{bad: 1, code: errSemaphoreOverflow, address: 64'(semaphoreIndex)};
          if (signalOverflow) state <= failing;
          else if (syncDone) state <= completing;
        end
        waiting: if (syncDone) state <= completing;
        atBarrier: if (otherInBarrier) state <= completing;
        completing: state <= idle;
        failing:
        if (failureKept) state <= halted;
        else if (failureDropped) state <= idle;
        default: if (resume) state <= idle;
      endcase

      if (completed || (state == halted && resume)) begin
        head <= (head + 1) & mask;
        done <= done + 1;
        // Erratum wrap-full-hang: a queue that wraps while the other is full takes the other's flag for "no more".
        if (errata.wrapFullHang && ((head + 1) & mask) == 0 && otherFull) hung <= 1;
      end

      if (write)
        case (register_)
          baseLow: if (!busy) base[31:0] <= {writeData[31:6], 6'b0};
          baseHigh: if (!busy) base[63:32] <= writeData;
          sizeRegister:
          if (!busy) begin
            size <= legalSize(writeData);
            head <= '0;
            tail <= '0;
          end
          doorbell: if (size != 0) tail <= writeData[9:0] & mask;
          default: ;
        endcase
    end
endmodule

// Checks a command before it has any effect (SPEC.md, sections 4 and 6): opcode and limits, then alignment, then extents,
// each over the words in their order. A clock cycle for each of the three.
module CommandChecker
  import MinnowTypes::*;
(
    input  logic   clock,
    input  logic   reset,
    input  logic   start,     // `command` stays as it is until `done`.
    input  Command command,
    output logic   done,      // One cycle, with the verdict.
    output Verdict verdict
);
  // The first failure stays.
  function automatic Verdict limit(Verdict so, logic [31:0] value, logic [31:0] low, logic [31:0] high);
    if (so.bad || (value >= low && value <= high)) return so;
    return '{bad: 1, code: errBadArgument, address: 64'(value)};
  endfunction

  function automatic Verdict aligned8(Verdict so, logic [31:0] value);
    if (so.bad || value[2:0] == 0) return so;
    return '{bad: 1, code: errMisaligned, address: 64'(value)};
  endfunction

  function automatic Verdict inside_(Verdict so, logic [31:0] address, logic [31:0] rows, logic [31:0] stride,
                                     logic [63:0] rowBytes);
    logic [63:0] last;
    last = 64'(address) + (64'(rows) - 1) * 64'(stride) + ((rowBytes + 7) & ~64'd7);
    if (so.bad || last <= 64'h10000) return so;
    return '{bad: 1, code: errOutOfRange, address: 64'(address)};
  endfunction

  function automatic logic known(logic [7:0] opcode);
    case (opcode)
      opNop, opDmaLoad, opDmaStore, opDmaChain, opGemm, opVadd32, opVadd8, opRelu8, opRequant, opMaxpool8, opFence,
      opSignal, opWait, opBarrier: return 1;
      default: return 0;
    endcase
  endfunction

  function automatic Verdict limits(Command w);
    Verdict so;
    so = '0;
    if (!known(w[0][7:0])) so = '{bad: 1, code: errBadOpcode, address: 0};
    case (w[0][7:0])
      opDmaLoad, opDmaStore: begin
        so = limit(so, w[5], 8, 65536);
        so = limit(so, w[6], 1, 4096);
      end
      opGemm: for (int i = 5; i <= 7; ++i) so = limit(so, w[i], 1, 1024);
      opVadd32, opVadd8, opRelu8: for (int i = 5; i <= 6; ++i) so = limit(so, w[i], 1, 4096);
      opRequant: begin
        for (int i = 5; i <= 6; ++i) so = limit(so, w[i], 1, 4096);
        so = limit(so, w[10], 1, 32'h7fffffff);
        so = limit(so, w[11], 0, 62);
      end
      opMaxpool8: begin
        so = limit(so, w[5], 1, 256);
        so = limit(so, w[6], 1, 256);
        so = limit(so, w[7], 8, 512);
        so = limit(so, w[7], 8, {w[7][31:3], 3'b0});  // A multiple of 8 is one of the limits.
        so = limit(so, w[8], 1, w[5] < w[6] ? (w[5] < 8 ? w[5] : 8) : (w[6] < 8 ? w[6] : 8));
        so = limit(so, w[9], 1, 8);
      end
      opSignal, opWait: so = limit(so, w[2], 0, 7);
      default: ;
    endcase
    return so;
  endfunction

  function automatic Verdict alignment(Command w);
    Verdict so;
    so = '0;
    case (w[0][7:0])
      opDmaLoad, opDmaStore: begin
        if (w[2][2:0] != 0) so = '{bad: 1, code: errMisaligned, address: {w[3], w[2]}};
        so = aligned8(so, w[4]);
        so = aligned8(so, w[5]);
        so = aligned8(so, w[7]);
        so = aligned8(so, w[8]);
      end
      opDmaChain: if (w[2][5:0] != 0) so = '{bad: 1, code: errMisaligned, address: {w[3], w[2]}};
      opFence: if (w[2][2:0] != 0) so = '{bad: 1, code: errMisaligned, address: {w[3], w[2]}};
      opGemm: begin
        for (int i = 2; i <= 4; ++i) so = aligned8(so, w[i]);
        for (int i = 8; i <= 10; ++i) so = aligned8(so, w[i]);
      end
      opVadd32, opVadd8: begin
        for (int i = 2; i <= 4; ++i) so = aligned8(so, w[i]);
        so = aligned8(so, w[7]);
        if (!(w[0][7:0] == opVadd32 && w[0][8])) so = aligned8(so, w[8]);
        so = aligned8(so, w[9]);
      end
      opRelu8, opRequant: begin
        so = aligned8(so, w[2]);
        so = aligned8(so, w[4]);
        so = aligned8(so, w[7]);
        so = aligned8(so, w[9]);
      end
      opMaxpool8: begin
        so = aligned8(so, w[2]);
        so = aligned8(so, w[4]);
      end
      default: ;
    endcase
    return so;
  endfunction

  // Bytes of a MAXPOOL8 output.
  function automatic logic [63:0] pooled(Command w);
    logic [31:0] high, wide;
    high = (w[5] - w[8]) / w[9] + 1;
    wide = (w[6] - w[8]) / w[9] + 1;
    return 64'(high) * 64'(wide) * 64'(w[7]);
  endfunction

  function automatic Verdict extents(Command w);
    Verdict so;
    so = '0;
    case (w[0][7:0])
      opDmaLoad, opDmaStore: so = inside_(so, w[4], w[6], w[8], 64'(w[5]));
      opGemm: begin
        so = inside_(so, w[2], w[5], w[8], 64'(w[7]));
        so = inside_(so, w[3], w[7], w[9], 64'(w[6]));
        so = inside_(so, w[4], w[5], w[10], 64'(w[6]) * 4);
      end
      opVadd32: begin
        so = inside_(so, w[2], w[5], w[7], 64'(w[6]) * 4);
        so = inside_(so, w[3], w[0][8] ? 1 : w[5], w[8], 64'(w[6]) * 4);
        so = inside_(so, w[4], w[5], w[9], 64'(w[6]) * 4);
      end
      opVadd8: begin
        so = inside_(so, w[2], w[5], w[7], 64'(w[6]));
        so = inside_(so, w[3], w[5], w[8], 64'(w[6]));
        so = inside_(so, w[4], w[5], w[9], 64'(w[6]));
      end
      opRelu8: begin
        so = inside_(so, w[2], w[5], w[7], 64'(w[6]));
        so = inside_(so, w[4], w[5], w[9], 64'(w[6]));
      end
      opRequant: begin
        so = inside_(so, w[2], w[5], w[7], 64'(w[6]) * 4);
        so = inside_(so, w[4], w[5], w[9], 64'(w[6]));
      end
      opMaxpool8: begin
        so = inside_(so, w[2], 1, 0, 64'(w[5]) * 64'(w[6]) * 64'(w[7]));
        so = inside_(so, w[4], 1, 0, pooled(w));
      end
      default: ;
    endcase
    return so;
  endfunction

  typedef enum logic [1:0] {idle, limiting, aligning, ranging} State;
  State state;

  always_ff @(posedge clock)
    if (reset) begin
      state <= idle;
      done  <= 0;
    end else begin
      Verdict so;
      so = '0;
      done <= 0;
      case (state)
        limiting: begin
          so = limits(command);
          state <= aligning;
        end
        aligning: begin
          so = alignment(command);
          state <= ranging;
        end
        ranging: begin
          so = extents(command);
          done <= 1;
          state <= idle;
        end
        default: if (start) state <= limiting;
      endcase
      if (state != idle) verdict <= so;
      if (so.bad) begin
        done  <= 1;
        state <= idle;
      end
    end
endmodule

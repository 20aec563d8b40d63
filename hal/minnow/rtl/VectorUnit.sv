// VADD32, VADD8, RELU8, REQUANT and MAXPOOL8: for each word of the result, read what it needs, then write it.
module VectorUnit
  import MinnowTypes::*;
(
    input  logic                    clock,
    input  logic                    reset,
    input  logic                    requantWrap,   // Erratum.
    input  logic             [1:0]  start,
    input  Command           [1:0]  command,
    output logic                    busy,
    output logic                    done,
    output ScratchpadRequest        request,
    input  logic                    grant,
    input  logic             [63:0] readData
);
  typedef enum logic [1:0] {idle, reading, writing, ending} State;
  State state;

  logic [7:0]  opcode;
  logic        broadcast, relu;
  logic [12:0] columnsLeft, columns, rowsLeft;          // In elements.
  logic [12:0] lda, ldb, ldd;                           // In words.
  logic [12:0] aRow, bRow, dRow, a, b, d;               // Words.
  logic [31:0] multiplier, zeroPoint;
  logic [5:0]  shift;
  // MAXPOOL8.
  logic [6:0]  channelWords, channelAt;
  logic [8:0]  outputsX, outputAtX;
  logic [3:0]  window, windowX;
  logic [12:0] pixelStep, lineStep, poolRow, poolPixel, poolLine;

  // ---- What a word of the result needs ----

  logic [6:0] needed, asked, got;
  logic       arrives;
  logic [3:0] elements;      // Of the present word.
  always_comb begin
    elements = opcode == opVadd32 ? (columnsLeft > 2 ? 4'd2 : columnsLeft[3:0])
             : opcode == opMaxpool8 ? 4'd8 : (columnsLeft > 8 ? 4'd8 : columnsLeft[3:0]);
    case (opcode)
      opVadd32, opVadd8: needed = 2;
      opRequant: needed = (7'(elements) + 7'd1) >> 1;
      opMaxpool8: needed = window * window;
      default: needed = 1;
    endcase
  end

  logic [12:0] readWord;
  always_comb
    case (opcode)
      opVadd32, opVadd8: readWord = asked[0] ? b : a;
      opRequant: readWord = a + 13'(asked);
      default: readWord = a;
    endcase

  logic [63:0] result;
  always_comb begin
    request = '0;
    request.valid = (state == reading && asked != needed) || state == writing;
    request.write = state == writing;
    request.word = state == writing ? d : readWord;
    if (state == writing) begin
      request.enable = opcode == opVadd32 ? (elements == 2 ? 8'hff : 8'h0f) : lanes(elements);
      request.data = result;
    end
  end

  // ---- Lanes ----

  function automatic logic [7:0] addSaturated(logic [7:0] x, logic [7:0] y);
    logic [8:0] sum;
    sum = {x[7], x} + {y[7], y};
    if (sum[8] == sum[7]) return sum[7:0];
    return sum[8] ? 8'h80 : 8'h7f;
  endfunction

  // A requantiser works only while it is needed: what stands still costs nothing to simulate.
  logic [1:0][31:0] requantIn;
  logic [1:0][7:0]  requantOut;
  assign requantIn = opcode == opRequant && arrives ? readData : '0;
  for (genvar i = 0; i < 2; ++i) begin : requant
    Requantiser lane (
        .value      (requantIn[i]),
        .multiplier,
        .shift,
        .zeroPoint,
        .relu,
        .wrapErratum(requantWrap),
        .result     (requantOut[i])
    );
  end

  function automatic logic [63:0] combined(logic [63:0] so, logic [63:0] data, logic first, logic [7:0] code);
    logic [63:0] next;
    next = data;
    case (code)
      opVadd32: if (!first) next = {so[63:32] + data[63:32], so[31:0] + data[31:0]};
      opVadd8: if (!first) for (int i = 0; i < 8; ++i) next[8*i+:8] = addSaturated(so[8*i+:8], data[8*i+:8]);
      opRelu8: for (int i = 0; i < 8; ++i) if (data[8*i+7]) next[8*i+:8] = 0;
      opMaxpool8:
      if (!first)
        for (int i = 0; i < 8; ++i)
          if ($signed(so[8*i+:8]) > $signed(data[8*i+:8])) next[8*i+:8] = so[8*i+:8];
      default: ;
    endcase
    return next;
  endfunction

  // ---- The loops ----

  assign busy = state != idle;
  assign done = state == ending;

  always_ff @(posedge clock)
    if (reset) begin
      state <= idle;
      opcode <= opNop;
      asked <= '0;
      arrives <= 0;
    end else begin
      Command c;
      logic [12:0] width;
      c = start[1] ? command[1] : command[0];
      width = 13'(c[6]);
      arrives <= grant && state == reading;
      case (state)
        idle:
        if (start != 0) begin
          opcode <= c[0][7:0];
          broadcast <= c[0][7:0] == opVadd32 && c[0][8];
          relu <= c[0][8];
          aRow <= c[2][15:3];
          a <= c[2][15:3];
          bRow <= c[3][15:3];
          b <= c[3][15:3];
          dRow <= c[4][15:3];
          d <= c[4][15:3];
          rowsLeft <= c[5][12:0];
          columns <= c[6][12:0];
          columnsLeft <= c[6][12:0];
          lda <= c[7][15:3];
          ldb <= c[8][15:3];
          ldd <= c[9][15:3];
          multiplier <= c[10];
          shift <= c[11][5:0];
          zeroPoint <= c[12];
          asked <= '0;
          got <= '0;
          if (c[0][7:0] == opMaxpool8) begin
            channelWords <= c[7][9:3];
            channelAt <= '0;
            window <= c[8][3:0];
            windowX <= '0;
            outputsX <= 9'((c[6] - c[8]) / c[9] + 1);
            outputAtX <= '0;
            rowsLeft <= 13'((c[5] - c[8]) / c[9] + 1);
            lineStep <= width * 13'(c[7][9:3]);
            pixelStep <= 13'(c[9][3:0]) * 13'(c[7][9:3]);               // From one output to the next.
            lda <= 13'(c[9][3:0]) * width * 13'(c[7][9:3]);             // From one row of outputs to the next.
            poolRow <= c[2][15:3];
            poolPixel <= c[2][15:3];
            poolLine <= c[2][15:3];
          end
          state <= reading;
        end

        reading: begin
          if (grant) begin
            asked <= asked + 1;
            if (opcode == opMaxpool8) begin
              if (windowX + 1 == window) begin
                windowX <= '0;
                poolLine <= poolLine + lineStep;
                a <= poolLine + lineStep;
              end else begin
                windowX <= windowX + 1;
                a <= a + 13'(channelWords);
              end
            end
          end
          if (arrives) begin
            got <= got + 1;
            if (opcode == opRequant) result[{got[1:0], 4'b0}+:16] <= requantOut;
            else result <= combined(result, readData, got == 0, opcode);
            if (got + 1 == needed) state <= writing;
          end
        end

        writing:
        if (grant) begin
          asked <= '0;
          got <= '0;
          windowX <= '0;
          state <= reading;
          d <= d + 1;
          if (opcode == opMaxpool8) nextPool();
          else if (columnsLeft > 13'(elements)) begin
            columnsLeft <= columnsLeft - 13'(elements);
            a <= a + (opcode == opRequant ? 4 : 1);
            b <= b + 1;
          end else begin
            columnsLeft <= columns;
            rowsLeft <= rowsLeft - 1;
            aRow <= aRow + lda;
            a <= aRow + lda;
            bRow <= broadcast ? bRow : bRow + ldb;
            b <= broadcast ? bRow : bRow + ldb;
            dRow <= dRow + ldd;
            d <= dRow + ldd;
            if (rowsLeft == 1) state <= ending;
          end
        end

        default: state <= idle;  // ending
      endcase
    end

  // The next word of a MAXPOOL8: the next eight channels, the next pixel, the next row.
  task automatic nextPool();
    if (channelAt + 1 != channelWords) begin
      channelAt <= channelAt + 1;
      poolLine <= poolPixel + 13'(channelAt) + 1;
      a <= poolPixel + 13'(channelAt) + 1;
    end else begin
      channelAt <= '0;
      if (outputAtX + 1 != outputsX) begin
        outputAtX <= outputAtX + 1;
        poolPixel <= poolPixel + pixelStep;
        poolLine <= poolPixel + pixelStep;
        a <= poolPixel + pixelStep;
      end else begin
        outputAtX <= '0;
        rowsLeft <= rowsLeft - 1;
        poolRow <= poolRow + lda;
        poolPixel <= poolRow + lda;
        poolLine <= poolRow + lda;
        a <= poolRow + lda;
        if (rowsLeft == 1) state <= ending;
      end
    end
  endtask
endmodule

// GEMM: an 8×8 block of C at a time. Its A and B blocks are read through two ports while the array works on the blocks
// before; each step of the array is the outer product of a column of A and a row of B.
module GemmUnit
  import MinnowTypes::*;
(
    input  logic                   clock,
    input  logic                   reset,
    input  logic             [1:0] start,
    input  Command           [1:0] command,
    output logic                   busy,
    output logic                   done,
    output logic            [29:0] macs,      // With done.
    output ScratchpadRequest [1:0] request,   // A and even words of C, B and odd words of C.
    input  logic             [1:0] grant,
    input  logic       [1:0][63:0] readData
);
  typedef enum logic [2:0] {idle, nextBlock, loadC, loadAB, drain, storeC, ending} State;
  State state;

  logic        accumulate;
  logic [10:0] m, n, k, rowAt, columnAt, depthAt;      // The present block's corner.
  logic [12:0] lda, ldb, ldc;                          // In words.
  logic [12:0] aOfRow, bOfColumn, cOfRow;              // Where the block row of A, block column of B, block row of C begin.
  logic [12:0] bBase, bOfDepth;
  logic [3:0]  blockRows, blockColumns, blockDepth;

  function automatic logic [3:0] upTo8(logic [10:0] left);
    return left > 8 ? 4'd8 : left[3:0];
  endfunction

  // ---- The ports: which row comes next, and for C which of its pairs ----

  logic [1:0][3:0]  row, got;
  logic [1:0]       half, arrives;
  logic [1:0][2:0]  arriveRow;
  logic [1:0]       arriveHalf;
  logic [1:0][12:0] pointer;
  logic [1:0]       portDone;
  logic [2:0]       pairs;             // 8-byte words in a row of the C block.
  logic             onC;
  assign onC = state == loadC || state == storeC;
  assign pairs = 3'((blockColumns + 4'd1) >> 1);

  logic [1:0][3:0] portRows;
  logic [1:0]      twoHalves;
  always_comb begin
    portRows[0] = blockRows;
    portRows[1] = !onC ? blockDepth : pairs > 1 ? blockRows : '0;
    twoHalves = onC ? {pairs > 3, pairs > 2} : '0;
    for (int p = 0; p < 2; ++p) portDone[p] = row[p] >= portRows[p];
  end

  logic [7:0][7:0][31:0] sums;
  always_comb
    for (int p = 0; p < 2; ++p) begin
      logic [2:0] pair;
      pair = {1'b0, half[p], p[0]};
      request[p] = '0;
      request[p].valid = (onC || (state == loadAB && !blocksFull)) && !portDone[p];
      request[p].write = state == storeC;
      request[p].word = onC ? pointer[p] + 13'(pair) : pointer[p];
      if (state == storeC) begin
        request[p].enable = {pair[1:0], 1'b1} < blockColumns[2:0] || blockColumns[3] ? 8'hff : 8'h0f;
        request[p].data = {sums[row[p][2:0]][{pair[1:0], 1'b1}], sums[row[p][2:0]][{pair[1:0], 1'b0}]};
      end
    end

  // ---- Blocks read, and those the array works on ----

  logic [7:0][63:0] aRead, bRead;
  logic [7:0][63:0] aBlock;   // By row; shifted by a byte each step.
  logic [7:0][63:0] bBlock;
  logic             blocksFull, lastDepth;
  logic [3:0]       readDepth, stepsLeft;
  logic             stepping, take;
  assign stepping = stepsLeft != 0;
  assign take = blocksFull && stepsLeft <= 1;
  assign lastDepth = depthAt + 8 >= k;

  logic clearSums;
  assign clearSums = state == nextBlock && !accumulate;

  for (genvar r = 0; r < 8; ++r) begin : rows
    logic [3:0] load;
    always_comb begin
      load = '0;
      if (state == loadC) begin
        if (arrives[0] && arriveRow[0] == r) load |= arriveHalf[0] ? 4'b0100 : 4'b0001;
        if (arrives[1] && arriveRow[1] == r) load |= arriveHalf[1] ? 4'b1000 : 4'b0010;
      end
    end
    MacRow cells (
        .clock,
        .clear   (clearSums),
        .step    (stepping),
        .a       (aBlock[r][7:0]),
        .b       (bBlock[0]),
        .load,
        .loadEven(readData[0]),
        .loadOdd (readData[1]),
        .sum     (sums[r])
    );
  end

  assign busy = state != idle;
  assign done = state == ending;
  assign macs = 30'(m) * 30'(n) * 30'(k);

  // Both ports begin again, at these words.
  task automatic aim(logic [12:0] first, logic [12:0] second);
    row <= '0;
    half <= '0;
    got <= '0;
    pointer[0] <= first;
    pointer[1] <= second;
  endtask

  always_ff @(posedge clock)
    if (reset) begin
      state <= idle;
      stepsLeft <= '0;
      blocksFull <= 0;
      arrives <= '0;
      row <= '0;
    end else begin
      Command c;
      c = start[1] ? command[1] : command[0];

      arrives <= '0;
      for (int p = 0; p < 2; ++p)
        if (grant[p]) begin
          arrives[p] <= 1;
          arriveRow[p] <= row[p][2:0];
          arriveHalf[p] <= half[p];
          if (twoHalves[p] && !half[p]) half[p] <= 1;
          else begin
            half[p] <= 0;
            row[p] <= row[p] + 1;
            pointer[p] <= pointer[p] + (onC ? ldc : p == 0 ? lda : ldb);
          end
        end

      if (stepping) begin
        stepsLeft <= stepsLeft - 1;
        for (int r = 0; r < 8; ++r) aBlock[r] <= aBlock[r] >> 8;
        for (int r = 0; r < 7; ++r) bBlock[r] <= bBlock[r+1];
      end
      if (take) begin
        aBlock <= aRead;
        bBlock <= bRead;
        stepsLeft <= readDepth;
        blocksFull <= 0;
      end

      case (state)
        idle:
        if (start != 0) begin
          accumulate <= c[0][8];
          m <= c[5][10:0];
          n <= c[6][10:0];
          k <= c[7][10:0];
          lda <= c[8][15:3];
          ldb <= c[9][15:3];
          ldc <= c[10][15:3];
          aOfRow <= c[2][15:3];
          bBase <= c[3][15:3];
          bOfColumn <= c[3][15:3];
          cOfRow <= c[4][15:3];
          rowAt <= '0;
          columnAt <= '0;
          state <= nextBlock;
        end

        nextBlock: begin
          blockRows <= upTo8(m - rowAt);
          blockColumns <= upTo8(n - columnAt);
          blockDepth <= upTo8(k);
          depthAt <= '0;
          if (accumulate) begin
            aim(cOfRow + 13'(columnAt[10:1]), cOfRow + 13'(columnAt[10:1]));
            state <= loadC;
          end else begin
            aim(aOfRow, bOfColumn);
            state <= loadAB;
          end
        end

        loadC:
        if (portDone == '1 && arrives == '0) begin
          aim(aOfRow, bOfColumn);
          state <= loadAB;
        end

        loadAB: begin
          if (arrives[0]) aRead[arriveRow[0]] <= readData[0];
          if (arrives[1]) bRead[arriveRow[1]] <= readData[1];
          for (int p = 0; p < 2; ++p) if (arrives[p]) got[p] <= got[p] + 1;
          // The last words may be arriving in this cycle.
          if (!blocksFull && got[0] + 4'(arrives[0]) == blockRows && got[1] + 4'(arrives[1]) == blockDepth) begin
            blocksFull <= 1;
            readDepth <= blockDepth;
            if (lastDepth) state <= drain;
            else begin
              depthAt <= depthAt + 8;
              blockDepth <= upTo8(k - depthAt - 8);
              aim(aOfRow + 13'(depthAt[10:3]) + 1, bOfDepth);
            end
          end
        end

        drain:
        if (!blocksFull && !stepping) begin
          aim(cOfRow + 13'(columnAt[10:1]), cOfRow + 13'(columnAt[10:1]));
          state <= storeC;
        end

        storeC:
        if (portDone == '1) begin
          if (columnAt + 8 < n) begin
            columnAt <= columnAt + 8;
            bOfColumn <= bOfColumn + 1;
            state <= nextBlock;
          end else if (rowAt + 8 < m) begin
            columnAt <= '0;
            bOfColumn <= bBase;
            rowAt <= rowAt + 8;
            aOfRow <= aOfRow + {lda[9:0], 3'b0};
            cOfRow <= cOfRow + {ldc[9:0], 3'b0};
            state <= nextBlock;
          end else state <= ending;
        end

        default: state <= idle;  // ending
      endcase
    end

  // Where the next eight rows of B are.
  assign bOfDepth = pointer[1];
endmodule

// 64 KiB in four banks, interleaved by word. Each bank serves one access a cycle; who loses a bank waits.
//
// The debug port always wins; DMA, GEMM and vector unit take turns in going first. During a reset all is cleared, a row
// of sixteen words a cycle.
module Scratchpad
  import MinnowTypes::*;
(
    input  logic                           clock,
    input  logic                           clear,
    input  logic             [8:0]         clearRow,
    input  logic                           stale,        // Erratum.
    input  ScratchpadRequest [clients-1:0] request,
    output logic             [clients-1:0] grant,
    output logic [clients-1:0][63:0]       readData,
    output logic             [2:0]         conflicts     // Units that lost a cycle.
);
  logic [3:0]       bankUsed, bankWrite;
  logic [3:0][10:0] bankAddress;
  logic [3:0][63:0] bankData, bankMask, bankRead;
  logic             turn;
  logic [clients-1:0][1:0] readBank;

  function automatic logic [63:0] expand(logic [7:0] enable);
    logic [63:0] mask;
    for (int i = 0; i < 8; ++i) mask[8*i+:8] = {8{enable[i]}};
    return mask;
  endfunction

  // Who goes first, by turn.
  localparam int order[2][clients] = '{
      '{clientDebug, clientDma, clientGemmA, clientGemmB, clientVector},
      '{clientDebug, clientVector, clientGemmA, clientGemmB, clientDma}};

  always_comb begin
    bankUsed = '0;
    bankWrite = '0;
    bankAddress = '0;
    bankData = '0;
    bankMask = '0;
    grant = '0;
    for (int place = 0; place < clients; ++place) begin
      int c;
      c = turn ? order[1][place] : order[0][place];
      if (request[c].valid && !bankUsed[request[c].word[1:0]]) begin
        grant[c] = 1;
        bankUsed[request[c].word[1:0]] = 1;
        bankWrite[request[c].word[1:0]] = request[c].write;
        bankAddress[request[c].word[1:0]] = request[c].word[12:2];
        if (request[c].write) begin
          bankData[request[c].word[1:0]] = request[c].data;
          bankMask[request[c].word[1:0]] = expand(request[c].enable);
        end
      end
    end
  end

  always_ff @(posedge clock) begin
    turn <= !turn && !clear;
    for (int c = 0; c < clients; ++c) if (grant[c]) readBank[c] <= request[c].word[1:0];
  end

  for (genvar b = 0; b < 4; ++b) begin : bank
    logic [63:0] words[2048]  /*verilator public_flat_rd*/;
    always_ff @(posedge clock) begin
      if (clear) for (int i = 0; i < 4; ++i) words[{clearRow, 2'(i)}] <= '0;
      else if (bankUsed[b]) begin
        if (bankWrite[b])
          words[bankAddress[b]] <= (words[bankAddress[b]] & ~bankMask[b]) | (bankData[b] & bankMask[b]);
        else bankRead[b] <= words[bankAddress[b]];
      end
    end
  end

  always_comb begin
    conflicts = 3'(request[clientDma].valid && !grant[clientDma])
              + 3'((request[clientGemmA].valid && !grant[clientGemmA]) ||
                   (request[clientGemmB].valid && !grant[clientGemmB]))
              + 3'(request[clientVector].valid && !grant[clientVector]);
  end

  // Erratum stale-scratchpad: beside the banks sits a copy of the line that the last DMA write replaced, meant for a
  // read in the same cycle. It is not dropped afterwards, but only when it has aged.
  localparam logic [7:0] staleCycles = 8'd200;
  logic [7:0]         staleAge;
  logic [12:0]        staleWord;
  logic [63:0]        staleData, dmaOld;
  logic [clients-1:0] readStale;
  always_comb begin
    dmaOld = '0;
    if (stale)
      unique case (request[clientDma].word[1:0])
        0: dmaOld = bank[0].words[request[clientDma].word[12:2]];
        1: dmaOld = bank[1].words[request[clientDma].word[12:2]];
        2: dmaOld = bank[2].words[request[clientDma].word[12:2]];
        3: dmaOld = bank[3].words[request[clientDma].word[12:2]];
      endcase
  end
  always_ff @(posedge clock) begin
    readStale <= '0;
    if (stale) begin
      if (staleAge != 0) staleAge <= staleAge - 1;
      for (int c = clientGemmA; c < clients; ++c)
        readStale[c] <= grant[c] && !request[c].write && staleAge != 0 && request[c].word == staleWord;
      for (int c = 0; c < clients; ++c)
        if (c != clientDma && grant[c] && request[c].write && request[c].word == staleWord) staleAge <= 0;
      if (grant[clientDma] && request[clientDma].write) begin
        staleAge <= staleCycles;
        staleWord <= request[clientDma].word;
        staleData <= dmaOld;
      end
    end
    if (clear) staleAge <= 0;
  end

  // A read was granted in the last cycle; a copy replaced in this very cycle is not what it saw.
  logic [63:0] staleSeen;
  always_ff @(posedge clock) if (stale) staleSeen <= staleData;
  for (genvar c = 0; c < clients; ++c) begin : port
    assign readData[c] = readStale[c] ? staleSeen : bankRead[readBank[c]];
  end
endmodule

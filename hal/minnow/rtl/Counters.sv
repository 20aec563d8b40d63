// The performance counters: running ones, and the copy that software reads.
module Counters
  import MinnowTypes::*;
(
    input  logic              clock,
    input  logic              reset,
    input  logic              enabled,
    input  CounterEvents      events,
    input  logic              writeControl,
    input  logic       [2:0]  writeData,      // FREEZE, SNAPSHOT, CLEAR
    input  logic       [3:0]  select,
    output logic              freeze,
    output logic       [63:0] selected        // Of the snapshot.
);
  logic [47:0] cycles  /*verilator public_flat_rd*/;
  logic [47:0] macs  /*verilator public_flat_rd*/;
  logic [39:0] arrayBusy  /*verilator public_flat_rd*/;
  logic [39:0] readBytes  /*verilator public_flat_rd*/;
  logic [39:0] writeBytes  /*verilator public_flat_rd*/;
  logic [15:0] readBursts  /*verilator public_flat_rd*/;
  logic [31:0] writeBursts  /*verilator public_flat_rd*/;
  logic [39:0] dmaBusy  /*verilator public_flat_rd*/;
  logic [39:0] waitSync  /*verilator public_flat_rd*/;
  logic [39:0] waitQueue  /*verilator public_flat_rd*/;
  logic [23:0] waitScratchpad  /*verilator public_flat_rd*/;
  logic [31:0] commands  /*verilator public_flat_rd*/;

  logic [11:0][47:0] copy;
  assign selected = select < 12 ? 64'(copy[select]) : '0;

  logic clear;
  assign clear = writeControl && writeData[2];

  always_ff @(posedge clock) begin
    if (reset) freeze <= 0;
    else if (writeControl) freeze <= writeData[0];

    if (reset) copy <= '0;
    else if (writeControl && writeData[1])
      copy <= {48'(commands), 48'(waitScratchpad), 48'(waitQueue), 48'(waitSync), 48'(dmaBusy), 48'(writeBursts),
               48'(readBursts), 48'(writeBytes), 48'(readBytes), 48'(arrayBusy), macs, cycles};

    if (reset || clear) begin
      cycles <= '0;
      macs <= '0;
      arrayBusy <= '0;
      readBytes <= '0;
      writeBytes <= '0;
      readBursts <= '0;
      writeBursts <= '0;
      dmaBusy <= '0;
      waitSync <= '0;
      waitQueue <= '0;
      waitScratchpad <= '0;
      commands <= '0;
    end else if (enabled && !freeze) begin
      cycles <= cycles + 1;
      macs <= macs + 48'(events.macs);
      arrayBusy <= arrayBusy + 40'(events.arrayBusy);
      readBytes <= readBytes + 40'({events.readBeat, 3'b0});
      writeBytes <= writeBytes + 40'({events.writeBeats, 3'b0});
      readBursts <= readBursts + 16'(events.readBurst);
      writeBursts <= writeBursts + 32'(events.writeBurst);
      dmaBusy <= dmaBusy + 40'(events.dmaBusy);
      waitSync <= waitSync + 40'(events.waitSync);
      waitQueue <= waitQueue + 40'(events.waitQueue);
      waitScratchpad <= waitScratchpad + 24'(events.waitScratchpad);
      commands <= commands + 32'(events.commands);
    end
  end
endmodule

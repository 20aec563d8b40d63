// One row of the array: eight multiply-accumulate cells that share their left operand.
module MacRow (
    input  logic             clock,
    input  logic             clear,
    input  logic             step,      // acc[j] += a · b[j]
    input  logic       [7:0] a,
    input  logic [7:0] [7:0] b,
    input  logic       [3:0] load,      // Pairs that are set.
    input  logic      [63:0] loadEven,  // For pairs 0 and 2 …
    input  logic      [63:0] loadOdd,   // … and for 1 and 3.
    output logic [7:0][31:0] sum
);
  always_ff @(posedge clock)
    if (step) begin
      for (int j = 0; j < 8; ++j) sum[j] <= sum[j] + 32'($signed(a) * $signed(b[j]));
    end else if (clear) sum <= '0;
    else begin
      if (load[0]) sum[1:0] <= loadEven;
      if (load[1]) sum[3:2] <= loadOdd;
      if (load[2]) sum[5:4] <= loadEven;
      if (load[3]) sum[7:6] <= loadOdd;
    end
endmodule

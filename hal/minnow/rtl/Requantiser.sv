// One lane of REQUANT: int32 to int8, rounded half up, saturated.
module Requantiser (
    input  logic        [31:0] value,
    input  logic        [31:0] multiplier,
    input  logic        [5:0]  shift,
    input  logic        [31:0] zeroPoint,
    input  logic               relu,
    input  logic               wrapErratum,
    output logic        [7:0]  result
);
  logic signed [63:0] product, rounded, floor_;
  logic signed [64:0] sum, unrounded;
  always_comb begin
    product = 64'($signed(value)) * 64'($signed(multiplier));
    floor_ = product >>> shift;
    rounded = shift == 0 ? product : (product + (64'sd1 << (shift - 6'd1))) >>> shift;
    sum = 65'(rounded) + 65'($signed(zeroPoint));
    unrounded = 65'(floor_) + 65'($signed(zeroPoint));
    if (sum > 127) result = 8'h7f;
    else if (relu && sum < 0) result = 8'h00;
    else if (sum < -128) result = 8'h80;
    else result = sum[7:0];
    // Erratum requant-wrap: saturated before the carry of rounding is added, and 127 + 1 is −128.
    if (wrapErratum && sum == 128 && unrounded == 127) result = 8'h80;
  end
endmodule

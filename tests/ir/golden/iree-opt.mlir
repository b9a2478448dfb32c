#loc3 = loc("<stdin>":3:8)
#loc4 = loc("<stdin>":3:40)
#loc5 = loc("<stdin>":3:66)
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x3x9x9xf32, ["N"]>, tensor<32x3x3x3xf32>, tensor<1x32x1x1xf32>) -> tensor<?x32xf32, ["N"]>, sym_name = "a_convolution_reads_the_image_as_it_stands_and_gives_channels_last"}> ({
  ^bb0(%arg0: tensor<?x3x9x9xf32, ["N"]> loc("<stdin>":3:8), %arg1: tensor<32x3x3x3xf32> loc("<stdin>":3:40), %arg2: tensor<1x32x1x1xf32> loc("<stdin>":3:66)):
    %0 = "polyreme.tensor.window"(%arg0) {axes = [2, 3], dilations = [1, 1], sizes = [3, 3], strides = [1, 1]} : (tensor<?x3x9x9xf32, ["N"]>) -> tensor<?x3x7x7x3x3xf32, ["N"]> loc(#loc17)
    %1 = "polyreme.tensor.contract"(%0, %arg1) {spec = "NCabmn,OCmn->NOab"} : (tensor<?x3x7x7x3x3xf32, ["N"]>, tensor<32x3x3x3xf32>) -> tensor<?x32x7x7xf32, ["N"]> loc(#loc18)
    %2 = "polyreme.tensor.map"(%1, %arg2) {fn = "add"} : (tensor<?x32x7x7xf32, ["N"]>, tensor<1x32x1x1xf32>) -> tensor<?x32x7x7xf32, ["N"]> loc(#loc19)
    %3 = "polyreme.tensor.reduce"(%2) {axes = [2, 3], fn = "max", keepdims = false} : (tensor<?x32x7x7xf32, ["N"]>) -> tensor<?x32xf32, ["N"]> loc(#loc20)
    "func.return"(%3) : (tensor<?x32xf32, ["N"]>) -> () loc(#loc21)
  }) {arg_names = ["x", "w", "c"]} : () -> () loc(#loc16)
}) : () -> () loc(#loc)
#loc = loc("channels-last.tir":0:0)
#loc1 = loc("channels-last.tir":2:6)
#loc2 = loc("channels-last.tir":2:73)
#loc6 = loc("channels-last.tir":3:8)
#loc7 = loc("channels-last.tir":3:21)
#loc8 = loc("channels-last.tir":4:8)
#loc9 = loc("channels-last.tir":4:23)
#loc10 = loc("channels-last.tir":5:8)
#loc11 = loc("channels-last.tir":5:18)
#loc12 = loc("channels-last.tir":6:8)
#loc13 = loc("channels-last.tir":6:21)
#loc14 = loc("channels-last.tir":7:3)
#loc15 = loc("channels-last.tir":7:9)
#loc16 = loc(fused[#loc1, #loc2])
#loc17 = loc(fused[#loc6, #loc7])
#loc18 = loc(fused[#loc8, #loc9])
#loc19 = loc(fused[#loc10, #loc11])
#loc20 = loc(fused[#loc12, #loc13])
#loc21 = loc(fused[#loc14, #loc15])
// -----
#loc3 = loc("<stdin>":15:8)
#loc4 = loc("<stdin>":15:40)
#loc5 = loc("<stdin>":15:66)
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x3x9x9xf32, ["N"]>, tensor<32x3x3x3xf32>, tensor<1x32x1x1xf32>) -> tensor<?x32xf32, ["N"]>, sym_name = "a_convolution_reads_the_image_as_it_stands_and_gives_channels_last"}> ({
  ^bb0(%arg0: tensor<?x3x9x9xf32, ["N"]> loc("<stdin>":15:8), %arg1: tensor<32x3x3x3xf32> loc("<stdin>":15:40), %arg2: tensor<1x32x1x1xf32> loc("<stdin>":15:66)):
    %0 = "polyreme.tensor.window"(%arg0) {axes = [2, 3], dilations = [1, 1], sizes = [3, 3], strides = [1, 1]} : (tensor<?x3x9x9xf32, ["N"]>) -> tensor<?x3x7x7x3x3xf32, ["N"]> loc(#loc17)
    %1 = "polyreme.tensor.contract"(%0, %arg1) {spec = "NCabmn,OCmn->NabO"} : (tensor<?x3x7x7x3x3xf32, ["N"]>, tensor<32x3x3x3xf32>) -> tensor<?x7x7x32xf32, ["N"]> loc(#loc18)
    %2 = "polyreme.tensor.reshape"(%arg2) {shape = [1, 1, 1, 32]} : (tensor<1x32x1x1xf32>) -> tensor<1x1x1x32xf32> loc(#loc19)
    %3 = "polyreme.tensor.map"(%1, %2) {fn = "add"} : (tensor<?x7x7x32xf32, ["N"]>, tensor<1x1x1x32xf32>) -> tensor<?x7x7x32xf32, ["N"]> loc(#loc19)
    %4 = "polyreme.tensor.reduce"(%3) {axes = [1, 2], fn = "max", keepdims = false} : (tensor<?x7x7x32xf32, ["N"]>) -> tensor<?x32xf32, ["N"]> loc(#loc20)
    "func.return"(%4) : (tensor<?x32xf32, ["N"]>) -> () loc(#loc21)
  }) {arg_names = ["x", "w", "c"]} : () -> () loc(#loc16)
}) : () -> () loc(#loc)
#loc = loc("channels-last.tir":0:0)
#loc1 = loc("channels-last.tir":2:6)
#loc2 = loc("channels-last.tir":2:73)
#loc6 = loc("channels-last.tir":3:8)
#loc7 = loc("channels-last.tir":3:21)
#loc8 = loc("channels-last.tir":4:8)
#loc9 = loc("channels-last.tir":4:23)
#loc10 = loc("channels-last.tir":5:8)
#loc11 = loc("channels-last.tir":5:18)
#loc12 = loc("channels-last.tir":6:8)
#loc13 = loc("channels-last.tir":6:21)
#loc14 = loc("channels-last.tir":7:3)
#loc15 = loc("channels-last.tir":7:9)
#loc16 = loc(fused[#loc1, #loc2])
#loc17 = loc(fused[#loc6, #loc7])
#loc18 = loc(fused[#loc8, #loc9])
#loc19 = loc(fused[#loc10, #loc11])
#loc20 = loc(fused[#loc12, #loc13])
#loc21 = loc(fused[#loc14, #loc15])
// -----
#loc3 = loc("<stdin>":28:8)
#loc4 = loc("<stdin>":28:40)
#loc5 = loc("<stdin>":28:66)
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x3x9x9xf32, ["N"]>, tensor<32x3x3x3xf32>, tensor<48x32x1x1xf32>) -> tensor<?x48xf32, ["N"]>, sym_name = "a_look_at_single_pixels_is_a_product_with_a_row_for_each"}> ({
  ^bb0(%arg0: tensor<?x3x9x9xf32, ["N"]> loc("<stdin>":28:8), %arg1: tensor<32x3x3x3xf32> loc("<stdin>":28:40), %arg2: tensor<48x32x1x1xf32> loc("<stdin>":28:66)):
    %0 = "polyreme.tensor.window"(%arg0) {axes = [2, 3], dilations = [1, 1], sizes = [3, 3], strides = [1, 1]} : (tensor<?x3x9x9xf32, ["N"]>) -> tensor<?x3x7x7x3x3xf32, ["N"]> loc(#loc19)
    %1 = "polyreme.tensor.contract"(%0, %arg1) {spec = "NCabmn,OCmn->NOab"} : (tensor<?x3x7x7x3x3xf32, ["N"]>, tensor<32x3x3x3xf32>) -> tensor<?x32x7x7xf32, ["N"]> loc(#loc20)
    %2 = "polyreme.tensor.window"(%1) {axes = [2, 3], dilations = [1, 1], sizes = [1, 1], strides = [1, 1]} : (tensor<?x32x7x7xf32, ["N"]>) -> tensor<?x32x7x7x1x1xf32, ["N"]> loc(#loc21)
    %3 = "polyreme.tensor.contract"(%2, %arg2) {spec = "NCabmn,OCmn->NOab"} : (tensor<?x32x7x7x1x1xf32, ["N"]>, tensor<48x32x1x1xf32>) -> tensor<?x48x7x7xf32, ["N"]> loc(#loc22)
    %4 = "polyreme.tensor.reduce"(%3) {axes = [2, 3], fn = "max", keepdims = false} : (tensor<?x48x7x7xf32, ["N"]>) -> tensor<?x48xf32, ["N"]> loc(#loc23)
    "func.return"(%4) : (tensor<?x48xf32, ["N"]>) -> () loc(#loc24)
  }) {arg_names = ["x", "w", "u"]} : () -> () loc(#loc18)
}) : () -> () loc(#loc)
#loc = loc("channels-last.tir":0:0)
#loc1 = loc("channels-last.tir":1:6)
#loc2 = loc("channels-last.tir":1:63)
#loc6 = loc("channels-last.tir":2:8)
#loc7 = loc("channels-last.tir":2:21)
#loc8 = loc("channels-last.tir":3:8)
#loc9 = loc("channels-last.tir":3:23)
#loc10 = loc("channels-last.tir":4:8)
#loc11 = loc("channels-last.tir":4:21)
#loc12 = loc("channels-last.tir":5:8)
#loc13 = loc("channels-last.tir":5:23)
#loc14 = loc("channels-last.tir":6:8)
#loc15 = loc("channels-last.tir":6:21)
#loc16 = loc("channels-last.tir":7:3)
#loc17 = loc("channels-last.tir":7:9)
#loc18 = loc(fused[#loc1, #loc2])
#loc19 = loc(fused[#loc6, #loc7])
#loc20 = loc(fused[#loc8, #loc9])
#loc21 = loc(fused[#loc10, #loc11])
#loc22 = loc(fused[#loc12, #loc13])
#loc23 = loc(fused[#loc14, #loc15])
#loc24 = loc(fused[#loc16, #loc17])
// -----
#loc3 = loc("<stdin>":41:8)
#loc4 = loc("<stdin>":41:40)
#loc5 = loc("<stdin>":41:66)
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x3x9x9xf32, ["N"]>, tensor<32x3x3x3xf32>, tensor<48x32x1x1xf32>) -> tensor<?x48xf32, ["N"]>, sym_name = "a_look_at_single_pixels_is_a_product_with_a_row_for_each"}> ({
  ^bb0(%arg0: tensor<?x3x9x9xf32, ["N"]> loc("<stdin>":41:8), %arg1: tensor<32x3x3x3xf32> loc("<stdin>":41:40), %arg2: tensor<48x32x1x1xf32> loc("<stdin>":41:66)):
    %0 = "polyreme.tensor.window"(%arg0) {axes = [2, 3], dilations = [1, 1], sizes = [3, 3], strides = [1, 1]} : (tensor<?x3x9x9xf32, ["N"]>) -> tensor<?x3x7x7x3x3xf32, ["N"]> loc(#loc19)
    %1 = "polyreme.tensor.contract"(%0, %arg1) {spec = "NCabmn,OCmn->NabO"} : (tensor<?x3x7x7x3x3xf32, ["N"]>, tensor<32x3x3x3xf32>) -> tensor<?x7x7x32xf32, ["N"]> loc(#loc20)
    %2 = "polyreme.tensor.window"(%1) {axes = [1, 2], dilations = [1, 1], sizes = [1, 1], strides = [1, 1]} : (tensor<?x7x7x32xf32, ["N"]>) -> tensor<?x7x7x32x1x1xf32, ["N"]> loc(#loc21)
    %3 = "polyreme.tensor.reshape"(%1) {shape = [#polyreme.size<"49*N">, 32]} : (tensor<?x7x7x32xf32, ["N"]>) -> tensor<?x32xf32, ["49*N"]> loc(#loc22)
    %4 = "polyreme.tensor.reshape"(%arg2) {shape = [48, 32]} : (tensor<48x32x1x1xf32>) -> tensor<48x32xf32> loc(#loc22)
    %5 = "polyreme.tensor.contract"(%3, %4) {spec = "rC,OC->rO"} : (tensor<?x32xf32, ["49*N"]>, tensor<48x32xf32>) -> tensor<?x48xf32, ["49*N"]> loc(#loc22)
    %6 = "polyreme.tensor.reshape"(%5) {shape = [#polyreme.size<"N">, 7, 7, 48]} : (tensor<?x48xf32, ["49*N"]>) -> tensor<?x7x7x48xf32, ["N"]> loc(#loc22)
    %7 = "polyreme.tensor.reduce"(%6) {axes = [1, 2], fn = "max", keepdims = false} : (tensor<?x7x7x48xf32, ["N"]>) -> tensor<?x48xf32, ["N"]> loc(#loc23)
    "func.return"(%7) : (tensor<?x48xf32, ["N"]>) -> () loc(#loc24)
  }) {arg_names = ["x", "w", "u"]} : () -> () loc(#loc18)
}) : () -> () loc(#loc)
#loc = loc("channels-last.tir":0:0)
#loc1 = loc("channels-last.tir":1:6)
#loc2 = loc("channels-last.tir":1:63)
#loc6 = loc("channels-last.tir":2:8)
#loc7 = loc("channels-last.tir":2:21)
#loc8 = loc("channels-last.tir":3:8)
#loc9 = loc("channels-last.tir":3:23)
#loc10 = loc("channels-last.tir":4:8)
#loc11 = loc("channels-last.tir":4:21)
#loc12 = loc("channels-last.tir":5:8)
#loc13 = loc("channels-last.tir":5:23)
#loc14 = loc("channels-last.tir":6:8)
#loc15 = loc("channels-last.tir":6:21)
#loc16 = loc("channels-last.tir":7:3)
#loc17 = loc("channels-last.tir":7:9)
#loc18 = loc(fused[#loc1, #loc2])
#loc19 = loc(fused[#loc6, #loc7])
#loc20 = loc(fused[#loc8, #loc9])
#loc21 = loc(fused[#loc10, #loc11])
#loc22 = loc(fused[#loc12, #loc13])
#loc23 = loc(fused[#loc14, #loc15])
#loc24 = loc(fused[#loc16, #loc17])
// -----
#loc3 = loc("<stdin>":57:8)
#loc4 = loc("<stdin>":57:40)
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x3x9x9xf32, ["N"]>, tensor<8x3x3x3xf32>) -> tensor<?x8xf32, ["N"]>, sym_name = "few_channels_stay_where_they_are"}> ({
  ^bb0(%arg0: tensor<?x3x9x9xf32, ["N"]> loc("<stdin>":57:8), %arg1: tensor<8x3x3x3xf32> loc("<stdin>":57:40)):
    %0 = "polyreme.tensor.window"(%arg0) {axes = [2, 3], dilations = [1, 1], sizes = [3, 3], strides = [1, 1]} : (tensor<?x3x9x9xf32, ["N"]>) -> tensor<?x3x7x7x3x3xf32, ["N"]> loc(#loc14)
    %1 = "polyreme.tensor.contract"(%0, %arg1) {spec = "NCabmn,OCmn->NOab"} : (tensor<?x3x7x7x3x3xf32, ["N"]>, tensor<8x3x3x3xf32>) -> tensor<?x8x7x7xf32, ["N"]> loc(#loc15)
    %2 = "polyreme.tensor.reduce"(%1) {axes = [2, 3], fn = "max", keepdims = false} : (tensor<?x8x7x7xf32, ["N"]>) -> tensor<?x8xf32, ["N"]> loc(#loc16)
    "func.return"(%2) : (tensor<?x8xf32, ["N"]>) -> () loc(#loc17)
  }) {arg_names = ["x", "w"]} : () -> () loc(#loc13)
}) : () -> () loc(#loc)
#loc = loc("channels-last.tir":0:0)
#loc1 = loc("channels-last.tir":1:6)
#loc2 = loc("channels-last.tir":1:39)
#loc5 = loc("channels-last.tir":2:8)
#loc6 = loc("channels-last.tir":2:21)
#loc7 = loc("channels-last.tir":3:8)
#loc8 = loc("channels-last.tir":3:23)
#loc9 = loc("channels-last.tir":4:8)
#loc10 = loc("channels-last.tir":4:21)
#loc11 = loc("channels-last.tir":5:3)
#loc12 = loc("channels-last.tir":5:9)
#loc13 = loc(fused[#loc1, #loc2])
#loc14 = loc(fused[#loc5, #loc6])
#loc15 = loc(fused[#loc7, #loc8])
#loc16 = loc(fused[#loc9, #loc10])
#loc17 = loc(fused[#loc11, #loc12])
// -----
#loc3 = loc("<stdin>":68:8)
#loc4 = loc("<stdin>":68:40)
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x3x9x9xf32, ["N"]>, tensor<8x3x3x3xf32>) -> tensor<?x8xf32, ["N"]>, sym_name = "few_channels_stay_where_they_are"}> ({
  ^bb0(%arg0: tensor<?x3x9x9xf32, ["N"]> loc("<stdin>":68:8), %arg1: tensor<8x3x3x3xf32> loc("<stdin>":68:40)):
    %0 = "polyreme.tensor.window"(%arg0) {axes = [2, 3], dilations = [1, 1], sizes = [3, 3], strides = [1, 1]} : (tensor<?x3x9x9xf32, ["N"]>) -> tensor<?x3x7x7x3x3xf32, ["N"]> loc(#loc14)
    %1 = "polyreme.tensor.contract"(%0, %arg1) {spec = "NCabmn,OCmn->NOab"} : (tensor<?x3x7x7x3x3xf32, ["N"]>, tensor<8x3x3x3xf32>) -> tensor<?x8x7x7xf32, ["N"]> loc(#loc15)
    %2 = "polyreme.tensor.reduce"(%1) {axes = [2, 3], fn = "max", keepdims = false} : (tensor<?x8x7x7xf32, ["N"]>) -> tensor<?x8xf32, ["N"]> loc(#loc16)
    "func.return"(%2) : (tensor<?x8xf32, ["N"]>) -> () loc(#loc17)
  }) {arg_names = ["x", "w"]} : () -> () loc(#loc13)
}) : () -> () loc(#loc)
#loc = loc("channels-last.tir":0:0)
#loc1 = loc("channels-last.tir":1:6)
#loc2 = loc("channels-last.tir":1:39)
#loc5 = loc("channels-last.tir":2:8)
#loc6 = loc("channels-last.tir":2:21)
#loc7 = loc("channels-last.tir":3:8)
#loc8 = loc("channels-last.tir":3:23)
#loc9 = loc("channels-last.tir":4:8)
#loc10 = loc("channels-last.tir":4:21)
#loc11 = loc("channels-last.tir":5:3)
#loc12 = loc("channels-last.tir":5:9)
#loc13 = loc(fused[#loc1, #loc2])
#loc14 = loc(fused[#loc5, #loc6])
#loc15 = loc(fused[#loc7, #loc8])
#loc16 = loc(fused[#loc9, #loc10])
#loc17 = loc(fused[#loc11, #loc12])
// -----
#loc3 = loc("<stdin>":79:8)
#loc4 = loc("<stdin>":79:34)
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<512x1024xf32>, tensor<16xf32>) -> (tensor<512x1024xf32>, tensor<16xf32>), sym_name = "the_last_gradients_leave_first"}> ({
  ^bb0(%arg0: tensor<512x1024xf32> loc("<stdin>":79:8), %arg1: tensor<16xf32> loc("<stdin>":79:34)):
    "func.return"(%arg0, %arg1) : (tensor<512x1024xf32>, tensor<16xf32>) -> () loc(#loc8)
  }) {arg_names = ["w", "b"]} : () -> () loc(#loc7)
}) : () -> () loc(#loc)
#loc = loc("data-parallel.tir":0:0)
#loc1 = loc("data-parallel.tir":2:6)
#loc2 = loc("data-parallel.tir":2:37)
#loc5 = loc("data-parallel.tir":3:3)
#loc6 = loc("data-parallel.tir":3:9)
#loc7 = loc(fused[#loc1, #loc2])
#loc8 = loc(fused[#loc5, #loc6])
// -----
#loc3 = loc("<stdin>":87:8)
#loc4 = loc("<stdin>":87:34)
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<512x1024xf32>, tensor<16xf32>) -> (tensor<512x1024xf32>, tensor<16xf32>), sym_name = "the_last_gradients_leave_first"}> ({
  ^bb0(%arg0: tensor<512x1024xf32> loc("<stdin>":87:8), %arg1: tensor<16xf32> loc("<stdin>":87:34)):
    %0 = "polyreme.dist.all_reduce"(%arg1) {bucket = 0 : i64, reduce = "mean"} : (tensor<16xf32>) -> tensor<16xf32> loc(#loc7)
    %1 = "polyreme.dist.all_reduce"(%arg0) {bucket = 1 : i64, reduce = "mean"} : (tensor<512x1024xf32>) -> tensor<512x1024xf32> loc(#loc7)
    "func.return"(%1, %0) : (tensor<512x1024xf32>, tensor<16xf32>) -> () loc(#loc8)
  }) {arg_names = ["w", "b"]} : () -> () loc(#loc7)
}) : () -> () loc(#loc)
#loc = loc("data-parallel.tir":0:0)
#loc1 = loc("data-parallel.tir":2:6)
#loc2 = loc("data-parallel.tir":2:37)
#loc5 = loc("data-parallel.tir":3:3)
#loc6 = loc("data-parallel.tir":3:9)
#loc7 = loc(fused[#loc1, #loc2])
#loc8 = loc(fused[#loc5, #loc6])
// -----
#loc3 = loc("<stdin>":97:8)
#loc4 = loc("<stdin>":97:27)
#loc5 = loc("<stdin>":97:46)
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<4xf32>, tensor<4xf64>, tensor<2xf32>) -> (tensor<4xf32>, tensor<4xf64>, tensor<2xf32>), sym_name = "small_gradients_travel_together_but_not_with_other_dtypes"}> ({
  ^bb0(%arg0: tensor<4xf32> loc("<stdin>":97:8), %arg1: tensor<4xf64> loc("<stdin>":97:27), %arg2: tensor<2xf32> loc("<stdin>":97:46)):
    "func.return"(%arg0, %arg1, %arg2) : (tensor<4xf32>, tensor<4xf64>, tensor<2xf32>) -> () loc(#loc9)
  }) {arg_names = ["a", "b", "c"]} : () -> () loc(#loc8)
}) : () -> () loc(#loc)
#loc = loc("data-parallel.tir":0:0)
#loc1 = loc("data-parallel.tir":1:6)
#loc2 = loc("data-parallel.tir":1:64)
#loc6 = loc("data-parallel.tir":2:3)
#loc7 = loc("data-parallel.tir":2:9)
#loc8 = loc(fused[#loc1, #loc2])
#loc9 = loc(fused[#loc6, #loc7])
// -----
#loc3 = loc("<stdin>":105:8)
#loc4 = loc("<stdin>":105:27)
#loc5 = loc("<stdin>":105:46)
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<4xf32>, tensor<4xf64>, tensor<2xf32>) -> (tensor<4xf32>, tensor<4xf64>, tensor<2xf32>), sym_name = "small_gradients_travel_together_but_not_with_other_dtypes"}> ({
  ^bb0(%arg0: tensor<4xf32> loc("<stdin>":105:8), %arg1: tensor<4xf64> loc("<stdin>":105:27), %arg2: tensor<2xf32> loc("<stdin>":105:46)):
    %0 = "polyreme.dist.all_reduce"(%arg1) {bucket = 0 : i64, reduce = "mean"} : (tensor<4xf64>) -> tensor<4xf64> loc(#loc8)
    %1:2 = "polyreme.dist.all_reduce"(%arg0, %arg2) {bucket = 1 : i64, reduce = "mean"} : (tensor<4xf32>, tensor<2xf32>) -> (tensor<4xf32>, tensor<2xf32>) loc(#loc8)
    "func.return"(%1#0, %0, %1#1) : (tensor<4xf32>, tensor<4xf64>, tensor<2xf32>) -> () loc(#loc9)
  }) {arg_names = ["a", "b", "c"]} : () -> () loc(#loc8)
}) : () -> () loc(#loc)
#loc = loc("data-parallel.tir":0:0)
#loc1 = loc("data-parallel.tir":1:6)
#loc2 = loc("data-parallel.tir":1:64)
#loc6 = loc("data-parallel.tir":2:3)
#loc7 = loc("data-parallel.tir":2:9)
#loc8 = loc(fused[#loc1, #loc2])
#loc9 = loc(fused[#loc6, #loc7])
// -----
#loc3 = loc("<stdin>":115:8)
#loc4 = loc("<stdin>":115:29)
#loc5 = loc("<stdin>":115:51)
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<4x8xf32>, tensor<4x2xf32>, tensor<8x2xf32>) -> (tensor<8x2xf32>, tensor<2xf32>), sym_name = "a_bucket_travels_while_the_next_gradient_is_computed"}> ({
  ^bb0(%arg0: tensor<4x8xf32> loc("<stdin>":115:8), %arg1: tensor<4x2xf32> loc("<stdin>":115:29), %arg2: tensor<8x2xf32> loc("<stdin>":115:51)):
    %0 = "polyreme.nn.matmul"(%arg0, %arg1) {transpose_x = true, transpose_y = false} : (tensor<4x8xf32>, tensor<4x2xf32>) -> tensor<8x2xf32> loc(#loc13)
    %1 = "polyreme.nn.sum"(%arg1) {axis = [0], keepdims = false} : (tensor<4x2xf32>) -> tensor<2xf32> loc(#loc14)
    "func.return"(%0, %1) : (tensor<8x2xf32>, tensor<2xf32>) -> () loc(#loc15)
  }) {arg_names = ["x", "dy", "w"]} : () -> () loc(#loc12)
}) : () -> () loc(#loc)
#loc = loc("data-parallel.tir":0:0)
#loc1 = loc("data-parallel.tir":2:6)
#loc2 = loc("data-parallel.tir":2:59)
#loc6 = loc("data-parallel.tir":3:9)
#loc7 = loc("data-parallel.tir":3:18)
#loc8 = loc("data-parallel.tir":4:9)
#loc9 = loc("data-parallel.tir":4:15)
#loc10 = loc("data-parallel.tir":8:3)
#loc11 = loc("data-parallel.tir":8:9)
#loc12 = loc(fused[#loc1, #loc2])
#loc13 = loc(fused[#loc6, #loc7])
#loc14 = loc(fused[#loc8, #loc9])
#loc15 = loc(fused[#loc10, #loc11])
// -----
#loc3 = loc("<stdin>":125:8)
#loc4 = loc("<stdin>":125:29)
#loc5 = loc("<stdin>":125:51)
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<4x8xf32>, tensor<4x2xf32>, tensor<8x2xf32>) -> (tensor<8x2xf32>, tensor<2xf32>), sym_name = "a_bucket_travels_while_the_next_gradient_is_computed"}> ({
  ^bb0(%arg0: tensor<4x8xf32> loc("<stdin>":125:8), %arg1: tensor<4x2xf32> loc("<stdin>":125:29), %arg2: tensor<8x2xf32> loc("<stdin>":125:51)):
    %0 = "polyreme.nn.matmul"(%arg0, %arg1) {transpose_x = true, transpose_y = false} : (tensor<4x8xf32>, tensor<4x2xf32>) -> tensor<8x2xf32> loc(#loc13)
    %1 = "polyreme.nn.sum"(%arg1) {axis = [0], keepdims = false} : (tensor<4x2xf32>) -> tensor<2xf32> loc(#loc14)
    %2:2 = "polyreme.dist.all_reduce"(%0, %1) {bucket = 0 : i64, reduce = "mean"} : (tensor<8x2xf32>, tensor<2xf32>) -> (tensor<8x2xf32>, tensor<2xf32>) loc(#loc12)
    "func.return"(%2#0, %2#1) : (tensor<8x2xf32>, tensor<2xf32>) -> () loc(#loc15)
  }) {arg_names = ["x", "dy", "w"]} : () -> () loc(#loc12)
}) : () -> () loc(#loc)
#loc = loc("data-parallel.tir":0:0)
#loc1 = loc("data-parallel.tir":2:6)
#loc2 = loc("data-parallel.tir":2:59)
#loc6 = loc("data-parallel.tir":3:9)
#loc7 = loc("data-parallel.tir":3:18)
#loc8 = loc("data-parallel.tir":4:9)
#loc9 = loc("data-parallel.tir":4:15)
#loc10 = loc("data-parallel.tir":8:3)
#loc11 = loc("data-parallel.tir":8:9)
#loc12 = loc(fused[#loc1, #loc2])
#loc13 = loc(fused[#loc6, #loc7])
#loc14 = loc(fused[#loc8, #loc9])
#loc15 = loc(fused[#loc10, #loc11])
// -----
#loc3 = loc("<stdin>":136:8)
#loc4 = loc("<stdin>":136:27)
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>), sym_name = "what_needs_a_result_waits_and_nothing_else_does"}> ({
  ^bb0(%arg0: tensor<4xf32> loc("<stdin>":136:8), %arg1: tensor<4xf32> loc("<stdin>":136:27)):
    %0 = "polyreme.dist.all_reduce"(%arg0) {reduce = "sum"} : (tensor<4xf32>) -> tensor<4xf32> loc(#loc14)
    %1 = "polyreme.nn.square"(%0) : (tensor<4xf32>) -> tensor<4xf32> loc(#loc15)
    %2 = "polyreme.nn.exp"(%arg1) : (tensor<4xf32>) -> tensor<4xf32> loc(#loc16)
    "func.return"(%1, %2) : (tensor<4xf32>, tensor<4xf32>) -> () loc(#loc17)
  }) {arg_names = ["x", "y"]} : () -> () loc(#loc13)
}) : () -> () loc(#loc)
#loc = loc("data-parallel.tir":0:0)
#loc1 = loc("data-parallel.tir":2:6)
#loc2 = loc("data-parallel.tir":2:54)
#loc5 = loc("data-parallel.tir":3:12)
#loc6 = loc("data-parallel.tir":3:27)
#loc7 = loc("data-parallel.tir":4:13)
#loc8 = loc("data-parallel.tir":4:22)
#loc9 = loc("data-parallel.tir":5:12)
#loc10 = loc("data-parallel.tir":5:18)
#loc11 = loc("data-parallel.tir":6:3)
#loc12 = loc("data-parallel.tir":6:9)
#loc13 = loc(fused[#loc1, #loc2])
#loc14 = loc(fused[#loc5, #loc6])
#loc15 = loc(fused[#loc7, #loc8])
#loc16 = loc(fused[#loc9, #loc10])
#loc17 = loc(fused[#loc11, #loc12])
// -----
#loc3 = loc("<stdin>":147:8)
#loc4 = loc("<stdin>":147:27)
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>), sym_name = "what_needs_a_result_waits_and_nothing_else_does"}> ({
  ^bb0(%arg0: tensor<4xf32> loc("<stdin>":147:8), %arg1: tensor<4xf32> loc("<stdin>":147:27)):
    %0 = "polyreme.dist.all_reduce"(%arg0) {reduce = "sum"} : (tensor<4xf32>) -> tensor<4xf32> loc(#loc14)
    %1 = "polyreme.nn.square"(%0) : (tensor<4xf32>) -> tensor<4xf32> loc(#loc15)
    %2 = "polyreme.nn.exp"(%arg1) : (tensor<4xf32>) -> tensor<4xf32> loc(#loc16)
    %3:2 = "polyreme.dist.all_reduce"(%1, %2) {bucket = 0 : i64, reduce = "mean"} : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) loc(#loc13)
    "func.return"(%3#0, %3#1) : (tensor<4xf32>, tensor<4xf32>) -> () loc(#loc17)
  }) {arg_names = ["x", "y"]} : () -> () loc(#loc13)
}) : () -> () loc(#loc)
#loc = loc("data-parallel.tir":0:0)
#loc1 = loc("data-parallel.tir":2:6)
#loc2 = loc("data-parallel.tir":2:54)
#loc5 = loc("data-parallel.tir":3:12)
#loc6 = loc("data-parallel.tir":3:27)
#loc7 = loc("data-parallel.tir":4:13)
#loc8 = loc("data-parallel.tir":4:22)
#loc9 = loc("data-parallel.tir":5:12)
#loc10 = loc("data-parallel.tir":5:18)
#loc11 = loc("data-parallel.tir":6:3)
#loc12 = loc("data-parallel.tir":6:9)
#loc13 = loc(fused[#loc1, #loc2])
#loc14 = loc(fused[#loc5, #loc6])
#loc15 = loc(fused[#loc7, #loc8])
#loc16 = loc(fused[#loc9, #loc10])
#loc17 = loc(fused[#loc11, #loc12])
// -----
#loc3 = loc("<stdin>":159:8)
#loc4 = loc("<stdin>":159:27)
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>), sym_name = "starts_keep_their_order"}> ({
  ^bb0(%arg0: tensor<4xf32> loc("<stdin>":159:8), %arg1: tensor<4xf32> loc("<stdin>":159:27)):
    %0 = "polyreme.nn.exp"(%arg0) : (tensor<4xf32>) -> tensor<4xf32> loc(#loc14)
    %1 = "polyreme.dist.all_reduce"(%0) {reduce = "sum"} : (tensor<4xf32>) -> tensor<4xf32> loc(#loc15)
    %2 = "polyreme.dist.all_reduce"(%arg1) {reduce = "sum"} : (tensor<4xf32>) -> tensor<4xf32> loc(#loc16)
    "func.return"(%1, %2) : (tensor<4xf32>, tensor<4xf32>) -> () loc(#loc17)
  }) {arg_names = ["x", "y"]} : () -> () loc(#loc13)
}) : () -> () loc(#loc)
#loc = loc("data-parallel.tir":0:0)
#loc1 = loc("data-parallel.tir":3:6)
#loc2 = loc("data-parallel.tir":3:30)
#loc5 = loc("data-parallel.tir":4:11)
#loc6 = loc("data-parallel.tir":4:17)
#loc7 = loc("data-parallel.tir":5:8)
#loc8 = loc("data-parallel.tir":5:23)
#loc9 = loc("data-parallel.tir":6:8)
#loc10 = loc("data-parallel.tir":6:23)
#loc11 = loc("data-parallel.tir":7:3)
#loc12 = loc("data-parallel.tir":7:9)
#loc13 = loc(fused[#loc1, #loc2])
#loc14 = loc(fused[#loc5, #loc6])
#loc15 = loc(fused[#loc7, #loc8])
#loc16 = loc(fused[#loc9, #loc10])
#loc17 = loc(fused[#loc11, #loc12])
// -----
#loc3 = loc("<stdin>":170:8)
#loc4 = loc("<stdin>":170:27)
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>), sym_name = "starts_keep_their_order"}> ({
  ^bb0(%arg0: tensor<4xf32> loc("<stdin>":170:8), %arg1: tensor<4xf32> loc("<stdin>":170:27)):
    %0 = "polyreme.nn.exp"(%arg0) : (tensor<4xf32>) -> tensor<4xf32> loc(#loc14)
    %1 = "polyreme.dist.all_reduce"(%0) {reduce = "sum"} : (tensor<4xf32>) -> tensor<4xf32> loc(#loc15)
    %2 = "polyreme.dist.all_reduce"(%arg1) {reduce = "sum"} : (tensor<4xf32>) -> tensor<4xf32> loc(#loc16)
    %3:2 = "polyreme.dist.all_reduce"(%1, %2) {bucket = 0 : i64, reduce = "mean"} : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) loc(#loc13)
    "func.return"(%3#0, %3#1) : (tensor<4xf32>, tensor<4xf32>) -> () loc(#loc17)
  }) {arg_names = ["x", "y"]} : () -> () loc(#loc13)
}) : () -> () loc(#loc)
#loc = loc("data-parallel.tir":0:0)
#loc1 = loc("data-parallel.tir":3:6)
#loc2 = loc("data-parallel.tir":3:30)
#loc5 = loc("data-parallel.tir":4:11)
#loc6 = loc("data-parallel.tir":4:17)
#loc7 = loc("data-parallel.tir":5:8)
#loc8 = loc("data-parallel.tir":5:23)
#loc9 = loc("data-parallel.tir":6:8)
#loc10 = loc("data-parallel.tir":6:23)
#loc11 = loc("data-parallel.tir":7:3)
#loc12 = loc("data-parallel.tir":7:9)
#loc13 = loc(fused[#loc1, #loc2])
#loc14 = loc(fused[#loc5, #loc6])
#loc15 = loc(fused[#loc7, #loc8])
#loc16 = loc(fused[#loc9, #loc10])
#loc17 = loc(fused[#loc11, #loc12])
// -----
#loc3 = loc("<stdin>":182:8)
#loc4 = loc("<stdin>":182:36)
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x8xf32, ["N"]>, tensor<1x8xf32>) -> tensor<?x8xf32, ["N"]>, sym_name = "a_chain_of_elementwise_ops_is_one_group"}> ({
  ^bb0(%arg0: tensor<?x8xf32, ["N"]> loc("<stdin>":182:8), %arg1: tensor<1x8xf32> loc("<stdin>":182:36)):
    %0 = "polyreme.tensor.map"(%arg0, %arg1) {fn = "add"} : (tensor<?x8xf32, ["N"]>, tensor<1x8xf32>) -> tensor<?x8xf32, ["N"]> loc(#loc12)
    %1 = "polyreme.tensor.map"(%0) {fn = "exp"} : (tensor<?x8xf32, ["N"]>) -> tensor<?x8xf32, ["N"]> loc(#loc13)
    "func.return"(%1) : (tensor<?x8xf32, ["N"]>) -> () loc(#loc14)
  }) {arg_names = ["x", "y"]} : () -> () loc(#loc11)
}) : () -> () loc(#loc)
#loc = loc("fuse.tir":0:0)
#loc1 = loc("fuse.tir":2:6)
#loc2 = loc("fuse.tir":2:46)
#loc5 = loc("fuse.tir":3:8)
#loc6 = loc("fuse.tir":3:18)
#loc7 = loc("fuse.tir":4:8)
#loc8 = loc("fuse.tir":4:18)
#loc9 = loc("fuse.tir":5:3)
#loc10 = loc("fuse.tir":5:9)
#loc11 = loc(fused[#loc1, #loc2])
#loc12 = loc(fused[#loc5, #loc6])
#loc13 = loc(fused[#loc7, #loc8])
#loc14 = loc(fused[#loc9, #loc10])
// -----
#loc3 = loc("<stdin>":192:8)
#loc4 = loc("<stdin>":192:36)
#loc7 = loc("<stdin>":194:10)
#loc8 = loc("<stdin>":194:40)
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x8xf32, ["N"]>, tensor<1x8xf32>) -> tensor<?x8xf32, ["N"]>, sym_name = "a_chain_of_elementwise_ops_is_one_group"}> ({
  ^bb0(%arg0: tensor<?x8xf32, ["N"]> loc("<stdin>":192:8), %arg1: tensor<1x8xf32> loc("<stdin>":192:36)):
    %0 = "polyreme.tensor.fused"(%arg0, %arg1) ({
    ^bb0(%arg2: tensor<?x8xf32, ["N"]> loc("<stdin>":194:10), %arg3: tensor<1x8xf32> loc("<stdin>":194:40)):
      %1 = "polyreme.tensor.map"(%arg2, %arg3) {fn = "add"} : (tensor<?x8xf32, ["N"]>, tensor<1x8xf32>) -> tensor<?x8xf32, ["N"]> loc(#loc16)
      %2 = "polyreme.tensor.map"(%1) {fn = "exp"} : (tensor<?x8xf32, ["N"]>) -> tensor<?x8xf32, ["N"]> loc(#loc15)
      "polyreme.tensor.yield"(%2) : (tensor<?x8xf32, ["N"]>) -> () loc(#loc11)
    }) : (tensor<?x8xf32, ["N"]>, tensor<1x8xf32>) -> tensor<?x8xf32, ["N"]> loc(#loc15)
    "func.return"(%0) : (tensor<?x8xf32, ["N"]>) -> () loc(#loc17)
  }) {arg_names = ["x", "y"]} : () -> () loc(#loc14)
}) : () -> () loc(#loc)
#loc = loc("fuse.tir":0:0)
#loc1 = loc("fuse.tir":2:6)
#loc2 = loc("fuse.tir":2:46)
#loc5 = loc("fuse.tir":4:8)
#loc6 = loc("fuse.tir":4:18)
#loc9 = loc("fuse.tir":3:8)
#loc10 = loc("fuse.tir":3:18)
#loc11 = loc(unknown)
#loc12 = loc("fuse.tir":5:3)
#loc13 = loc("fuse.tir":5:9)
#loc14 = loc(fused[#loc1, #loc2])
#loc15 = loc(fused[#loc5, #loc6])
#loc16 = loc(fused[#loc9, #loc10])
#loc17 = loc(fused[#loc12, #loc13])
// -----
#loc3 = loc("<stdin>":206:8)
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x8xf32, ["N"]>) -> tensor<?x8xf32, ["N"]>, sym_name = "softmax_is_one_group"}> ({
  ^bb0(%arg0: tensor<?x8xf32, ["N"]> loc("<stdin>":206:8)):
    %0 = "polyreme.tensor.reduce"(%arg0) {axes = [1], fn = "max", keepdims = true} : (tensor<?x8xf32, ["N"]>) -> tensor<?x1xf32, ["N"]> loc(#loc17)
    %1 = "polyreme.tensor.map"(%arg0, %0) {fn = "sub"} : (tensor<?x8xf32, ["N"]>, tensor<?x1xf32, ["N"]>) -> tensor<?x8xf32, ["N"]> loc(#loc18)
    %2 = "polyreme.tensor.map"(%1) {fn = "exp"} : (tensor<?x8xf32, ["N"]>) -> tensor<?x8xf32, ["N"]> loc(#loc19)
    %3 = "polyreme.tensor.reduce"(%2) {axes = [1], fn = "add", keepdims = true} : (tensor<?x8xf32, ["N"]>) -> tensor<?x1xf32, ["N"]> loc(#loc20)
    %4 = "polyreme.tensor.map"(%2, %3) {fn = "div"} : (tensor<?x8xf32, ["N"]>, tensor<?x1xf32, ["N"]>) -> tensor<?x8xf32, ["N"]> loc(#loc21)
    "func.return"(%4) : (tensor<?x8xf32, ["N"]>) -> () loc(#loc22)
  }) {arg_names = ["x"]} : () -> () loc(#loc16)
}) : () -> () loc(#loc)
#loc = loc("fuse.tir":0:0)
#loc1 = loc("fuse.tir":1:6)
#loc2 = loc("fuse.tir":1:27)
#loc4 = loc("fuse.tir":2:8)
#loc5 = loc("fuse.tir":2:21)
#loc6 = loc("fuse.tir":3:8)
#loc7 = loc("fuse.tir":3:18)
#loc8 = loc("fuse.tir":4:8)
#loc9 = loc("fuse.tir":4:18)
#loc10 = loc("fuse.tir":5:8)
#loc11 = loc("fuse.tir":5:21)
#loc12 = loc("fuse.tir":6:8)
#loc13 = loc("fuse.tir":6:18)
#loc14 = loc("fuse.tir":7:3)
#loc15 = loc("fuse.tir":7:9)
#loc16 = loc(fused[#loc1, #loc2])
#loc17 = loc(fused[#loc4, #loc5])
#loc18 = loc(fused[#loc6, #loc7])
#loc19 = loc(fused[#loc8, #loc9])
#loc20 = loc(fused[#loc10, #loc11])
#loc21 = loc(fused[#loc12, #loc13])
#loc22 = loc(fused[#loc14, #loc15])
// -----
#loc3 = loc("<stdin>":219:8)
#loc6 = loc("<stdin>":221:10)
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x8xf32, ["N"]>) -> tensor<?x8xf32, ["N"]>, sym_name = "softmax_is_one_group"}> ({
  ^bb0(%arg0: tensor<?x8xf32, ["N"]> loc("<stdin>":219:8)):
    %0 = "polyreme.tensor.fused"(%arg0) ({
    ^bb0(%arg1: tensor<?x8xf32, ["N"]> loc("<stdin>":221:10)):
      %1 = "polyreme.tensor.reduce"(%arg1) {axes = [1], fn = "max", keepdims = true} : (tensor<?x8xf32, ["N"]>) -> tensor<?x1xf32, ["N"]> loc(#loc20)
      %2 = "polyreme.tensor.map"(%arg1, %1) {fn = "sub"} : (tensor<?x8xf32, ["N"]>, tensor<?x1xf32, ["N"]>) -> tensor<?x8xf32, ["N"]> loc(#loc21)
      %3 = "polyreme.tensor.map"(%2) {fn = "exp"} : (tensor<?x8xf32, ["N"]>) -> tensor<?x8xf32, ["N"]> loc(#loc22)
      %4 = "polyreme.tensor.reduce"(%3) {axes = [1], fn = "add", keepdims = true} : (tensor<?x8xf32, ["N"]>) -> tensor<?x1xf32, ["N"]> loc(#loc23)
      %5 = "polyreme.tensor.map"(%3, %4) {fn = "div"} : (tensor<?x8xf32, ["N"]>, tensor<?x1xf32, ["N"]>) -> tensor<?x8xf32, ["N"]> loc(#loc19)
      "polyreme.tensor.yield"(%5) : (tensor<?x8xf32, ["N"]>) -> () loc(#loc15)
    }) : (tensor<?x8xf32, ["N"]>) -> tensor<?x8xf32, ["N"]> loc(#loc19)
    "func.return"(%0) : (tensor<?x8xf32, ["N"]>) -> () loc(#loc24)
  }) {arg_names = ["x"]} : () -> () loc(#loc18)
}) : () -> () loc(#loc)
#loc = loc("fuse.tir":0:0)
#loc1 = loc("fuse.tir":1:6)
#loc2 = loc("fuse.tir":1:27)
#loc4 = loc("fuse.tir":6:8)
#loc5 = loc("fuse.tir":6:18)
#loc7 = loc("fuse.tir":2:8)
#loc8 = loc("fuse.tir":2:21)
#loc9 = loc("fuse.tir":3:8)
#loc10 = loc("fuse.tir":3:18)
#loc11 = loc("fuse.tir":4:8)
#loc12 = loc("fuse.tir":4:18)
#loc13 = loc("fuse.tir":5:8)
#loc14 = loc("fuse.tir":5:21)
#loc15 = loc(unknown)
#loc16 = loc("fuse.tir":7:3)
#loc17 = loc("fuse.tir":7:9)
#loc18 = loc(fused[#loc1, #loc2])
#loc19 = loc(fused[#loc4, #loc5])
#loc20 = loc(fused[#loc7, #loc8])
#loc21 = loc(fused[#loc9, #loc10])
#loc22 = loc(fused[#loc11, #loc12])
#loc23 = loc(fused[#loc13, #loc14])
#loc24 = loc(fused[#loc16, #loc17])
// -----
#loc3 = loc("<stdin>":236:8)
#loc4 = loc("<stdin>":236:36)
#loc5 = loc("<stdin>":236:57)
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>, tensor<4x8xf32>, tensor<1x8xf32>) -> tensor<?x8xf32, ["N"]>, sym_name = "what_follows_a_contract_joins_it"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]> loc("<stdin>":236:8), %arg1: tensor<4x8xf32> loc("<stdin>":236:36), %arg2: tensor<1x8xf32> loc("<stdin>":236:57)):
    %0 = "polyreme.tensor.contract"(%arg0, %arg1) {spec = "mk,kn->mn"} : (tensor<?x4xf32, ["N"]>, tensor<4x8xf32>) -> tensor<?x8xf32, ["N"]> loc(#loc17)
    %1 = "polyreme.tensor.map"(%0, %arg2) {fn = "add"} : (tensor<?x8xf32, ["N"]>, tensor<1x8xf32>) -> tensor<?x8xf32, ["N"]> loc(#loc18)
    %2 = "polyreme.tensor.full"() {dtype = f32, value = 0.000000e+00 : f64} : () -> tensor<f32> loc(#loc19)
    %3 = "polyreme.tensor.map"(%1, %2) {fn = "max"} : (tensor<?x8xf32, ["N"]>, tensor<f32>) -> tensor<?x8xf32, ["N"]> loc(#loc20)
    "func.return"(%3) : (tensor<?x8xf32, ["N"]>) -> () loc(#loc21)
  }) {arg_names = ["x", "w", "b"]} : () -> () loc(#loc16)
}) : () -> () loc(#loc)
#loc = loc("fuse.tir":0:0)
#loc1 = loc("fuse.tir":1:6)
#loc2 = loc("fuse.tir":1:39)
#loc6 = loc("fuse.tir":2:8)
#loc7 = loc("fuse.tir":2:23)
#loc8 = loc("fuse.tir":3:8)
#loc9 = loc("fuse.tir":3:18)
#loc10 = loc("fuse.tir":4:8)
#loc11 = loc("fuse.tir":4:19)
#loc12 = loc("fuse.tir":5:8)
#loc13 = loc("fuse.tir":5:18)
#loc14 = loc("fuse.tir":6:3)
#loc15 = loc("fuse.tir":6:9)
#loc16 = loc(fused[#loc1, #loc2])
#loc17 = loc(fused[#loc6, #loc7])
#loc18 = loc(fused[#loc8, #loc9])
#loc19 = loc(fused[#loc10, #loc11])
#loc20 = loc(fused[#loc12, #loc13])
#loc21 = loc(fused[#loc14, #loc15])
// -----
#loc3 = loc("<stdin>":248:8)
#loc4 = loc("<stdin>":248:36)
#loc5 = loc("<stdin>":248:57)
#loc8 = loc("<stdin>":250:10)
#loc9 = loc("<stdin>":250:40)
#loc10 = loc("<stdin>":250:63)
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>, tensor<4x8xf32>, tensor<1x8xf32>) -> tensor<?x8xf32, ["N"]>, sym_name = "what_follows_a_contract_joins_it"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]> loc("<stdin>":248:8), %arg1: tensor<4x8xf32> loc("<stdin>":248:36), %arg2: tensor<1x8xf32> loc("<stdin>":248:57)):
    %0 = "polyreme.tensor.fused"(%arg0, %arg1, %arg2) ({
    ^bb0(%arg3: tensor<?x4xf32, ["N"]> loc("<stdin>":250:10), %arg4: tensor<4x8xf32> loc("<stdin>":250:40), %arg5: tensor<1x8xf32> loc("<stdin>":250:63)):
      %1 = "polyreme.tensor.contract"(%arg3, %arg4) {spec = "mk,kn->mn"} : (tensor<?x4xf32, ["N"]>, tensor<4x8xf32>) -> tensor<?x8xf32, ["N"]> loc(#loc22)
      %2 = "polyreme.tensor.map"(%1, %arg5) {fn = "add"} : (tensor<?x8xf32, ["N"]>, tensor<1x8xf32>) -> tensor<?x8xf32, ["N"]> loc(#loc23)
      %3 = "polyreme.tensor.full"() {dtype = f32, value = 0.000000e+00 : f64} : () -> tensor<f32> loc(#loc24)
      %4 = "polyreme.tensor.map"(%2, %3) {fn = "max"} : (tensor<?x8xf32, ["N"]>, tensor<f32>) -> tensor<?x8xf32, ["N"]> loc(#loc21)
      "polyreme.tensor.yield"(%4) : (tensor<?x8xf32, ["N"]>) -> () loc(#loc17)
    }) : (tensor<?x4xf32, ["N"]>, tensor<4x8xf32>, tensor<1x8xf32>) -> tensor<?x8xf32, ["N"]> loc(#loc21)
    "func.return"(%0) : (tensor<?x8xf32, ["N"]>) -> () loc(#loc25)
  }) {arg_names = ["x", "w", "b"]} : () -> () loc(#loc20)
}) : () -> () loc(#loc)
#loc = loc("fuse.tir":0:0)
#loc1 = loc("fuse.tir":1:6)
#loc2 = loc("fuse.tir":1:39)
#loc6 = loc("fuse.tir":5:8)
#loc7 = loc("fuse.tir":5:18)
#loc11 = loc("fuse.tir":2:8)
#loc12 = loc("fuse.tir":2:23)
#loc13 = loc("fuse.tir":3:8)
#loc14 = loc("fuse.tir":3:18)
#loc15 = loc("fuse.tir":4:8)
#loc16 = loc("fuse.tir":4:19)
#loc17 = loc(unknown)
#loc18 = loc("fuse.tir":6:3)
#loc19 = loc("fuse.tir":6:9)
#loc20 = loc(fused[#loc1, #loc2])
#loc21 = loc(fused[#loc6, #loc7])
#loc22 = loc(fused[#loc11, #loc12])
#loc23 = loc(fused[#loc13, #loc14])
#loc24 = loc(fused[#loc15, #loc16])
#loc25 = loc(fused[#loc18, #loc19])
// -----
#loc3 = loc("<stdin>":264:8)
#loc4 = loc("<stdin>":264:36)
#loc5 = loc("<stdin>":264:57)
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>, tensor<4x8xf32>, tensor<1x8xf32>) -> tensor<?x8xf32, ["N"]>, sym_name = "a_bias_goes_with_its_contract_and_not_with_the_softmax"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]> loc("<stdin>":264:8), %arg1: tensor<4x8xf32> loc("<stdin>":264:36), %arg2: tensor<1x8xf32> loc("<stdin>":264:57)):
    %0 = "polyreme.tensor.contract"(%arg0, %arg1) {spec = "mk,kn->mn"} : (tensor<?x4xf32, ["N"]>, tensor<4x8xf32>) -> tensor<?x8xf32, ["N"]> loc(#loc17)
    %1 = "polyreme.tensor.map"(%0, %arg2) {fn = "add"} : (tensor<?x8xf32, ["N"]>, tensor<1x8xf32>) -> tensor<?x8xf32, ["N"]> loc(#loc18)
    %2 = "polyreme.tensor.reduce"(%1) {axes = [1], fn = "max", keepdims = true} : (tensor<?x8xf32, ["N"]>) -> tensor<?x1xf32, ["N"]> loc(#loc19)
    %3 = "polyreme.tensor.map"(%1, %2) {fn = "sub"} : (tensor<?x8xf32, ["N"]>, tensor<?x1xf32, ["N"]>) -> tensor<?x8xf32, ["N"]> loc(#loc20)
    "func.return"(%3) : (tensor<?x8xf32, ["N"]>) -> () loc(#loc21)
  }) {arg_names = ["x", "w", "b"]} : () -> () loc(#loc16)
}) : () -> () loc(#loc)
#loc = loc("fuse.tir":0:0)
#loc1 = loc("fuse.tir":1:6)
#loc2 = loc("fuse.tir":1:61)
#loc6 = loc("fuse.tir":2:8)
#loc7 = loc("fuse.tir":2:23)
#loc8 = loc("fuse.tir":3:8)
#loc9 = loc("fuse.tir":3:18)
#loc10 = loc("fuse.tir":4:8)
#loc11 = loc("fuse.tir":4:21)
#loc12 = loc("fuse.tir":5:8)
#loc13 = loc("fuse.tir":5:18)
#loc14 = loc("fuse.tir":6:3)
#loc15 = loc("fuse.tir":6:9)
#loc16 = loc(fused[#loc1, #loc2])
#loc17 = loc(fused[#loc6, #loc7])
#loc18 = loc(fused[#loc8, #loc9])
#loc19 = loc(fused[#loc10, #loc11])
#loc20 = loc(fused[#loc12, #loc13])
#loc21 = loc(fused[#loc14, #loc15])
// -----
#loc3 = loc("<stdin>":276:8)
#loc4 = loc("<stdin>":276:36)
#loc5 = loc("<stdin>":276:57)
#loc8 = loc("<stdin>":278:10)
#loc9 = loc("<stdin>":278:40)
#loc10 = loc("<stdin>":278:63)
#loc16 = loc("<stdin>":284:10)
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>, tensor<4x8xf32>, tensor<1x8xf32>) -> tensor<?x8xf32, ["N"]>, sym_name = "a_bias_goes_with_its_contract_and_not_with_the_softmax"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]> loc("<stdin>":276:8), %arg1: tensor<4x8xf32> loc("<stdin>":276:36), %arg2: tensor<1x8xf32> loc("<stdin>":276:57)):
    %0 = "polyreme.tensor.fused"(%arg0, %arg1, %arg2) ({
    ^bb0(%arg4: tensor<?x4xf32, ["N"]> loc("<stdin>":278:10), %arg5: tensor<4x8xf32> loc("<stdin>":278:40), %arg6: tensor<1x8xf32> loc("<stdin>":278:63)):
      %4 = "polyreme.tensor.contract"(%arg4, %arg5) {spec = "mk,kn->mn"} : (tensor<?x4xf32, ["N"]>, tensor<4x8xf32>) -> tensor<?x8xf32, ["N"]> loc(#loc23)
      %5 = "polyreme.tensor.map"(%4, %arg6) {fn = "add"} : (tensor<?x8xf32, ["N"]>, tensor<1x8xf32>) -> tensor<?x8xf32, ["N"]> loc(#loc22)
      "polyreme.tensor.yield"(%5) : (tensor<?x8xf32, ["N"]>) -> () loc(#loc13)
    }) : (tensor<?x4xf32, ["N"]>, tensor<4x8xf32>, tensor<1x8xf32>) -> tensor<?x8xf32, ["N"]> loc(#loc22)
    %1 = "polyreme.tensor.fused"(%0) ({
    ^bb0(%arg3: tensor<?x8xf32, ["N"]> loc("<stdin>":284:10)):
      %2 = "polyreme.tensor.reduce"(%arg3) {axes = [1], fn = "max", keepdims = true} : (tensor<?x8xf32, ["N"]>) -> tensor<?x1xf32, ["N"]> loc(#loc25)
      %3 = "polyreme.tensor.map"(%arg3, %2) {fn = "sub"} : (tensor<?x8xf32, ["N"]>, tensor<?x1xf32, ["N"]>) -> tensor<?x8xf32, ["N"]> loc(#loc24)
      "polyreme.tensor.yield"(%3) : (tensor<?x8xf32, ["N"]>) -> () loc(#loc13)
    }) : (tensor<?x8xf32, ["N"]>) -> tensor<?x8xf32, ["N"]> loc(#loc24)
    "func.return"(%1) : (tensor<?x8xf32, ["N"]>) -> () loc(#loc26)
  }) {arg_names = ["x", "w", "b"]} : () -> () loc(#loc21)
}) : () -> () loc(#loc)
#loc = loc("fuse.tir":0:0)
#loc1 = loc("fuse.tir":1:6)
#loc2 = loc("fuse.tir":1:61)
#loc6 = loc("fuse.tir":3:8)
#loc7 = loc("fuse.tir":3:18)
#loc11 = loc("fuse.tir":2:8)
#loc12 = loc("fuse.tir":2:23)
#loc13 = loc(unknown)
#loc14 = loc("fuse.tir":5:8)
#loc15 = loc("fuse.tir":5:18)
#loc17 = loc("fuse.tir":4:8)
#loc18 = loc("fuse.tir":4:21)
#loc19 = loc("fuse.tir":6:3)
#loc20 = loc("fuse.tir":6:9)
#loc21 = loc(fused[#loc1, #loc2])
#loc22 = loc(fused[#loc6, #loc7])
#loc23 = loc(fused[#loc11, #loc12])
#loc24 = loc(fused[#loc14, #loc15])
#loc25 = loc(fused[#loc17, #loc18])
#loc26 = loc(fused[#loc19, #loc20])
// -----
#loc3 = loc("<stdin>":296:8)
#loc4 = loc("<stdin>":296:40)
#loc5 = loc("<stdin>":296:65)
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x1x8x8xf32, ["N"]>, tensor<4x1x3x3xf32>, tensor<1x4x1x1xf32>) -> tensor<?x4x4x4xf32, ["N"]>, sym_name = "a_convolution_with_bias_relu_and_pooling_is_one_group"}> ({
  ^bb0(%arg0: tensor<?x1x8x8xf32, ["N"]> loc("<stdin>":296:8), %arg1: tensor<4x1x3x3xf32> loc("<stdin>":296:40), %arg2: tensor<1x4x1x1xf32> loc("<stdin>":296:65)):
    %0 = "polyreme.tensor.pad"(%arg0) {high = [0, 0, 1, 1], interior = [0, 0, 0, 0], low = [0, 0, 1, 1], value = 0.000000e+00 : f64} : (tensor<?x1x8x8xf32, ["N"]>) -> tensor<?x1x10x10xf32, ["N"]> loc(#loc21)
    %1 = "polyreme.tensor.window"(%0) {axes = [2, 3], dilations = [1, 1], sizes = [3, 3], strides = [1, 1]} : (tensor<?x1x10x10xf32, ["N"]>) -> tensor<?x1x8x8x3x3xf32, ["N"]> loc(#loc22)
    %2 = "polyreme.tensor.contract"(%1, %arg1) {spec = "nchwij,ocij->nohw"} : (tensor<?x1x8x8x3x3xf32, ["N"]>, tensor<4x1x3x3xf32>) -> tensor<?x4x8x8xf32, ["N"]> loc(#loc23)
    %3 = "polyreme.tensor.map"(%2, %arg2) {fn = "add"} : (tensor<?x4x8x8xf32, ["N"]>, tensor<1x4x1x1xf32>) -> tensor<?x4x8x8xf32, ["N"]> loc(#loc24)
    %4 = "polyreme.tensor.window"(%3) {axes = [2, 3], dilations = [1, 1], sizes = [2, 2], strides = [2, 2]} : (tensor<?x4x8x8xf32, ["N"]>) -> tensor<?x4x4x4x2x2xf32, ["N"]> loc(#loc25)
    %5 = "polyreme.tensor.reduce"(%4) {axes = [4, 5], fn = "max", keepdims = false} : (tensor<?x4x4x4x2x2xf32, ["N"]>) -> tensor<?x4x4x4xf32, ["N"]> loc(#loc26)
    "func.return"(%5) : (tensor<?x4x4x4xf32, ["N"]>) -> () loc(#loc27)
  }) {arg_names = ["x", "w", "b"]} : () -> () loc(#loc20)
}) : () -> () loc(#loc)
#loc = loc("fuse.tir":0:0)
#loc1 = loc("fuse.tir":1:6)
#loc2 = loc("fuse.tir":1:60)
#loc6 = loc("fuse.tir":2:8)
#loc7 = loc("fuse.tir":2:18)
#loc8 = loc("fuse.tir":3:8)
#loc9 = loc("fuse.tir":3:21)
#loc10 = loc("fuse.tir":4:8)
#loc11 = loc("fuse.tir":4:23)
#loc12 = loc("fuse.tir":5:8)
#loc13 = loc("fuse.tir":5:18)
#loc14 = loc("fuse.tir":6:8)
#loc15 = loc("fuse.tir":6:21)
#loc16 = loc("fuse.tir":7:8)
#loc17 = loc("fuse.tir":7:21)
#loc18 = loc("fuse.tir":8:3)
#loc19 = loc("fuse.tir":8:9)
#loc20 = loc(fused[#loc1, #loc2])
#loc21 = loc(fused[#loc6, #loc7])
#loc22 = loc(fused[#loc8, #loc9])
#loc23 = loc(fused[#loc10, #loc11])
#loc24 = loc(fused[#loc12, #loc13])
#loc25 = loc(fused[#loc14, #loc15])
#loc26 = loc(fused[#loc16, #loc17])
#loc27 = loc(fused[#loc18, #loc19])
// -----
#loc3 = loc("<stdin>":310:8)
#loc4 = loc("<stdin>":310:40)
#loc5 = loc("<stdin>":310:65)
#loc8 = loc("<stdin>":312:10)
#loc9 = loc("<stdin>":312:44)
#loc10 = loc("<stdin>":312:71)
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x1x8x8xf32, ["N"]>, tensor<4x1x3x3xf32>, tensor<1x4x1x1xf32>) -> tensor<?x4x4x4xf32, ["N"]>, sym_name = "a_convolution_with_bias_relu_and_pooling_is_one_group"}> ({
  ^bb0(%arg0: tensor<?x1x8x8xf32, ["N"]> loc("<stdin>":310:8), %arg1: tensor<4x1x3x3xf32> loc("<stdin>":310:40), %arg2: tensor<1x4x1x1xf32> loc("<stdin>":310:65)):
    %0 = "polyreme.tensor.fused"(%arg0, %arg1, %arg2) ({
    ^bb0(%arg3: tensor<?x1x8x8xf32, ["N"]> loc("<stdin>":312:10), %arg4: tensor<4x1x3x3xf32> loc("<stdin>":312:44), %arg5: tensor<1x4x1x1xf32> loc("<stdin>":312:71)):
      %1 = "polyreme.tensor.pad"(%arg3) {high = [0, 0, 1, 1], interior = [0, 0, 0, 0], low = [0, 0, 1, 1], value = 0.000000e+00 : f64} : (tensor<?x1x8x8xf32, ["N"]>) -> tensor<?x1x10x10xf32, ["N"]> loc(#loc26)
      %2 = "polyreme.tensor.window"(%1) {axes = [2, 3], dilations = [1, 1], sizes = [3, 3], strides = [1, 1]} : (tensor<?x1x10x10xf32, ["N"]>) -> tensor<?x1x8x8x3x3xf32, ["N"]> loc(#loc27)
      %3 = "polyreme.tensor.contract"(%2, %arg4) {spec = "nchwij,ocij->nohw"} : (tensor<?x1x8x8x3x3xf32, ["N"]>, tensor<4x1x3x3xf32>) -> tensor<?x4x8x8xf32, ["N"]> loc(#loc28)
      %4 = "polyreme.tensor.map"(%3, %arg5) {fn = "add"} : (tensor<?x4x8x8xf32, ["N"]>, tensor<1x4x1x1xf32>) -> tensor<?x4x8x8xf32, ["N"]> loc(#loc29)
      %5 = "polyreme.tensor.window"(%4) {axes = [2, 3], dilations = [1, 1], sizes = [2, 2], strides = [2, 2]} : (tensor<?x4x8x8xf32, ["N"]>) -> tensor<?x4x4x4x2x2xf32, ["N"]> loc(#loc30)
      %6 = "polyreme.tensor.reduce"(%5) {axes = [4, 5], fn = "max", keepdims = false} : (tensor<?x4x4x4x2x2xf32, ["N"]>) -> tensor<?x4x4x4xf32, ["N"]> loc(#loc25)
      "polyreme.tensor.yield"(%6) : (tensor<?x4x4x4xf32, ["N"]>) -> () loc(#loc21)
    }) : (tensor<?x1x8x8xf32, ["N"]>, tensor<4x1x3x3xf32>, tensor<1x4x1x1xf32>) -> tensor<?x4x4x4xf32, ["N"]> loc(#loc25)
    "func.return"(%0) : (tensor<?x4x4x4xf32, ["N"]>) -> () loc(#loc31)
  }) {arg_names = ["x", "w", "b"]} : () -> () loc(#loc24)
}) : () -> () loc(#loc)
#loc = loc("fuse.tir":0:0)
#loc1 = loc("fuse.tir":1:6)
#loc2 = loc("fuse.tir":1:60)
#loc6 = loc("fuse.tir":7:8)
#loc7 = loc("fuse.tir":7:21)
#loc11 = loc("fuse.tir":2:8)
#loc12 = loc("fuse.tir":2:18)
#loc13 = loc("fuse.tir":3:8)
#loc14 = loc("fuse.tir":3:21)
#loc15 = loc("fuse.tir":4:8)
#loc16 = loc("fuse.tir":4:23)
#loc17 = loc("fuse.tir":5:8)
#loc18 = loc("fuse.tir":5:18)
#loc19 = loc("fuse.tir":6:8)
#loc20 = loc("fuse.tir":6:21)
#loc21 = loc(unknown)
#loc22 = loc("fuse.tir":8:3)
#loc23 = loc("fuse.tir":8:9)
#loc24 = loc(fused[#loc1, #loc2])
#loc25 = loc(fused[#loc6, #loc7])
#loc26 = loc(fused[#loc11, #loc12])
#loc27 = loc(fused[#loc13, #loc14])
#loc28 = loc(fused[#loc15, #loc16])
#loc29 = loc(fused[#loc17, #loc18])
#loc30 = loc(fused[#loc19, #loc20])
#loc31 = loc(fused[#loc22, #loc23])
// -----
#loc3 = loc("<stdin>":328:8)
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x9xf32, ["N"]>) -> tensor<?x7xf32, ["N"]>, sym_name = "overlapping_windows_read_what_was_computed_once"}> ({
  ^bb0(%arg0: tensor<?x9xf32, ["N"]> loc("<stdin>":328:8)):
    %0 = "polyreme.tensor.map"(%arg0) {fn = "exp"} : (tensor<?x9xf32, ["N"]>) -> tensor<?x9xf32, ["N"]> loc(#loc13)
    %1 = "polyreme.tensor.window"(%0) {axes = [1], dilations = [1], sizes = [3], strides = [1]} : (tensor<?x9xf32, ["N"]>) -> tensor<?x7x3xf32, ["N"]> loc(#loc14)
    %2 = "polyreme.tensor.reduce"(%1) {axes = [2], fn = "add", keepdims = false} : (tensor<?x7x3xf32, ["N"]>) -> tensor<?x7xf32, ["N"]> loc(#loc15)
    "func.return"(%2) : (tensor<?x7xf32, ["N"]>) -> () loc(#loc16)
  }) {arg_names = ["x"]} : () -> () loc(#loc12)
}) : () -> () loc(#loc)
#loc = loc("fuse.tir":0:0)
#loc1 = loc("fuse.tir":2:6)
#loc2 = loc("fuse.tir":2:54)
#loc4 = loc("fuse.tir":3:8)
#loc5 = loc("fuse.tir":3:18)
#loc6 = loc("fuse.tir":4:8)
#loc7 = loc("fuse.tir":4:21)
#loc8 = loc("fuse.tir":5:8)
#loc9 = loc("fuse.tir":5:21)
#loc10 = loc("fuse.tir":6:3)
#loc11 = loc("fuse.tir":6:9)
#loc12 = loc(fused[#loc1, #loc2])
#loc13 = loc(fused[#loc4, #loc5])
#loc14 = loc(fused[#loc6, #loc7])
#loc15 = loc(fused[#loc8, #loc9])
#loc16 = loc(fused[#loc10, #loc11])
// -----
#loc3 = loc("<stdin>":339:8)
#loc8 = loc("<stdin>":342:10)
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x9xf32, ["N"]>) -> tensor<?x7xf32, ["N"]>, sym_name = "overlapping_windows_read_what_was_computed_once"}> ({
  ^bb0(%arg0: tensor<?x9xf32, ["N"]> loc("<stdin>":339:8)):
    %0 = "polyreme.tensor.map"(%arg0) {fn = "exp"} : (tensor<?x9xf32, ["N"]>) -> tensor<?x9xf32, ["N"]> loc(#loc15)
    %1 = "polyreme.tensor.fused"(%0) ({
    ^bb0(%arg1: tensor<?x9xf32, ["N"]> loc("<stdin>":342:10)):
      %2 = "polyreme.tensor.window"(%arg1) {axes = [1], dilations = [1], sizes = [3], strides = [1]} : (tensor<?x9xf32, ["N"]>) -> tensor<?x7x3xf32, ["N"]> loc(#loc17)
      %3 = "polyreme.tensor.reduce"(%2) {axes = [2], fn = "add", keepdims = false} : (tensor<?x7x3xf32, ["N"]>) -> tensor<?x7xf32, ["N"]> loc(#loc16)
      "polyreme.tensor.yield"(%3) : (tensor<?x7xf32, ["N"]>) -> () loc(#loc11)
    }) : (tensor<?x9xf32, ["N"]>) -> tensor<?x7xf32, ["N"]> loc(#loc16)
    "func.return"(%1) : (tensor<?x7xf32, ["N"]>) -> () loc(#loc18)
  }) {arg_names = ["x"]} : () -> () loc(#loc14)
}) : () -> () loc(#loc)
#loc = loc("fuse.tir":0:0)
#loc1 = loc("fuse.tir":2:6)
#loc2 = loc("fuse.tir":2:54)
#loc4 = loc("fuse.tir":3:8)
#loc5 = loc("fuse.tir":3:18)
#loc6 = loc("fuse.tir":5:8)
#loc7 = loc("fuse.tir":5:21)
#loc9 = loc("fuse.tir":4:8)
#loc10 = loc("fuse.tir":4:21)
#loc11 = loc(unknown)
#loc12 = loc("fuse.tir":6:3)
#loc13 = loc("fuse.tir":6:9)
#loc14 = loc(fused[#loc1, #loc2])
#loc15 = loc(fused[#loc4, #loc5])
#loc16 = loc(fused[#loc6, #loc7])
#loc17 = loc(fused[#loc9, #loc10])
#loc18 = loc(fused[#loc12, #loc13])
// -----
#loc3 = loc("<stdin>":354:8)
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x9xf32, ["N"]>) -> (tensor<?x9xf32, ["N"]>, tensor<?x9xf32, ["N"]>), sym_name = "a_value_that_is_also_returned_is_handed_out_by_its_group"}> ({
  ^bb0(%arg0: tensor<?x9xf32, ["N"]> loc("<stdin>":354:8)):
    %0 = "polyreme.tensor.map"(%arg0) {fn = "exp"} : (tensor<?x9xf32, ["N"]>) -> tensor<?x9xf32, ["N"]> loc(#loc11)
    %1 = "polyreme.tensor.map"(%0) {fn = "tanh"} : (tensor<?x9xf32, ["N"]>) -> tensor<?x9xf32, ["N"]> loc(#loc12)
    "func.return"(%0, %1) : (tensor<?x9xf32, ["N"]>, tensor<?x9xf32, ["N"]>) -> () loc(#loc13)
  }) {arg_names = ["x"]} : () -> () loc(#loc10)
}) : () -> () loc(#loc)
#loc = loc("fuse.tir":0:0)
#loc1 = loc("fuse.tir":1:6)
#loc2 = loc("fuse.tir":1:63)
#loc4 = loc("fuse.tir":2:8)
#loc5 = loc("fuse.tir":2:18)
#loc6 = loc("fuse.tir":3:8)
#loc7 = loc("fuse.tir":3:18)
#loc8 = loc("fuse.tir":4:3)
#loc9 = loc("fuse.tir":4:9)
#loc10 = loc(fused[#loc1, #loc2])
#loc11 = loc(fused[#loc4, #loc5])
#loc12 = loc(fused[#loc6, #loc7])
#loc13 = loc(fused[#loc8, #loc9])
// -----
#loc3 = loc("<stdin>":364:8)
#loc6 = loc("<stdin>":366:10)
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x9xf32, ["N"]>) -> (tensor<?x9xf32, ["N"]>, tensor<?x9xf32, ["N"]>), sym_name = "a_value_that_is_also_returned_is_handed_out_by_its_group"}> ({
  ^bb0(%arg0: tensor<?x9xf32, ["N"]> loc("<stdin>":364:8)):
    %0:2 = "polyreme.tensor.fused"(%arg0) ({
    ^bb0(%arg1: tensor<?x9xf32, ["N"]> loc("<stdin>":366:10)):
      %1 = "polyreme.tensor.map"(%arg1) {fn = "exp"} : (tensor<?x9xf32, ["N"]>) -> tensor<?x9xf32, ["N"]> loc(#loc14)
      %2 = "polyreme.tensor.map"(%1) {fn = "tanh"} : (tensor<?x9xf32, ["N"]>) -> tensor<?x9xf32, ["N"]> loc(#loc13)
      "polyreme.tensor.yield"(%1, %2) : (tensor<?x9xf32, ["N"]>, tensor<?x9xf32, ["N"]>) -> () loc(#loc9)
    }) : (tensor<?x9xf32, ["N"]>) -> (tensor<?x9xf32, ["N"]>, tensor<?x9xf32, ["N"]>) loc(#loc13)
    "func.return"(%0#0, %0#1) : (tensor<?x9xf32, ["N"]>, tensor<?x9xf32, ["N"]>) -> () loc(#loc15)
  }) {arg_names = ["x"]} : () -> () loc(#loc12)
}) : () -> () loc(#loc)
#loc = loc("fuse.tir":0:0)
#loc1 = loc("fuse.tir":1:6)
#loc2 = loc("fuse.tir":1:63)
#loc4 = loc("fuse.tir":3:8)
#loc5 = loc("fuse.tir":3:18)
#loc7 = loc("fuse.tir":2:8)
#loc8 = loc("fuse.tir":2:18)
#loc9 = loc(unknown)
#loc10 = loc("fuse.tir":4:3)
#loc11 = loc("fuse.tir":4:9)
#loc12 = loc(fused[#loc1, #loc2])
#loc13 = loc(fused[#loc4, #loc5])
#loc14 = loc(fused[#loc7, #loc8])
#loc15 = loc(fused[#loc10, #loc11])
// -----
#loc3 = loc("<stdin>":378:8)
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<4x4xf32>) -> tensor<4x4xf32>, sym_name = "a_group_has_no_way_out_and_in_again"}> ({
  ^bb0(%arg0: tensor<4x4xf32> loc("<stdin>":378:8)):
    %0 = "polyreme.tensor.map"(%arg0) {fn = "exp"} : (tensor<4x4xf32>) -> tensor<4x4xf32> loc(#loc13)
    %1 = "polyreme.tensor.contract"(%0, %0) {spec = "mk,kn->mn"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc(#loc14)
    %2 = "polyreme.tensor.map"(%0, %1) {fn = "add"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc(#loc15)
    "func.return"(%2) : (tensor<4x4xf32>) -> () loc(#loc16)
  }) {arg_names = ["x"]} : () -> () loc(#loc12)
}) : () -> () loc(#loc)
#loc = loc("fuse.tir":0:0)
#loc1 = loc("fuse.tir":2:6)
#loc2 = loc("fuse.tir":2:42)
#loc4 = loc("fuse.tir":3:8)
#loc5 = loc("fuse.tir":3:18)
#loc6 = loc("fuse.tir":4:8)
#loc7 = loc("fuse.tir":4:23)
#loc8 = loc("fuse.tir":5:8)
#loc9 = loc("fuse.tir":5:18)
#loc10 = loc("fuse.tir":6:3)
#loc11 = loc("fuse.tir":6:9)
#loc12 = loc(fused[#loc1, #loc2])
#loc13 = loc(fused[#loc4, #loc5])
#loc14 = loc(fused[#loc6, #loc7])
#loc15 = loc(fused[#loc8, #loc9])
#loc16 = loc(fused[#loc10, #loc11])
// -----
#loc3 = loc("<stdin>":389:8)
#loc8 = loc("<stdin>":392:10)
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<4x4xf32>) -> tensor<4x4xf32>, sym_name = "a_group_has_no_way_out_and_in_again"}> ({
  ^bb0(%arg0: tensor<4x4xf32> loc("<stdin>":389:8)):
    %0 = "polyreme.tensor.map"(%arg0) {fn = "exp"} : (tensor<4x4xf32>) -> tensor<4x4xf32> loc(#loc15)
    %1 = "polyreme.tensor.fused"(%0) ({
    ^bb0(%arg1: tensor<4x4xf32> loc("<stdin>":392:10)):
      %2 = "polyreme.tensor.contract"(%arg1, %arg1) {spec = "mk,kn->mn"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc(#loc17)
      %3 = "polyreme.tensor.map"(%arg1, %2) {fn = "add"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc(#loc16)
      "polyreme.tensor.yield"(%3) : (tensor<4x4xf32>) -> () loc(#loc11)
    }) : (tensor<4x4xf32>) -> tensor<4x4xf32> loc(#loc16)
    "func.return"(%1) : (tensor<4x4xf32>) -> () loc(#loc18)
  }) {arg_names = ["x"]} : () -> () loc(#loc14)
}) : () -> () loc(#loc)
#loc = loc("fuse.tir":0:0)
#loc1 = loc("fuse.tir":2:6)
#loc2 = loc("fuse.tir":2:42)
#loc4 = loc("fuse.tir":3:8)
#loc5 = loc("fuse.tir":3:18)
#loc6 = loc("fuse.tir":5:8)
#loc7 = loc("fuse.tir":5:18)
#loc9 = loc("fuse.tir":4:8)
#loc10 = loc("fuse.tir":4:23)
#loc11 = loc(unknown)
#loc12 = loc("fuse.tir":6:3)
#loc13 = loc("fuse.tir":6:9)
#loc14 = loc(fused[#loc1, #loc2])
#loc15 = loc(fused[#loc4, #loc5])
#loc16 = loc(fused[#loc6, #loc7])
#loc17 = loc(fused[#loc9, #loc10])
#loc18 = loc(fused[#loc12, #loc13])
// -----
#loc3 = loc("<stdin>":404:8)
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x9xf32, ["N"]>) -> (tensor<?xf32, ["N"]>, tensor<?xf32, ["N"]>), sym_name = "reductions_of_the_same_rows_are_one_sweep"}> ({
  ^bb0(%arg0: tensor<?x9xf32, ["N"]> loc("<stdin>":404:8)):
    %0 = "polyreme.tensor.map"(%arg0, %arg0) {fn = "mul"} : (tensor<?x9xf32, ["N"]>, tensor<?x9xf32, ["N"]>) -> tensor<?x9xf32, ["N"]> loc(#loc13)
    %1 = "polyreme.tensor.reduce"(%arg0) {axes = [1], fn = "add", keepdims = false} : (tensor<?x9xf32, ["N"]>) -> tensor<?xf32, ["N"]> loc(#loc14)
    %2 = "polyreme.tensor.reduce"(%0) {axes = [1], fn = "add", keepdims = false} : (tensor<?x9xf32, ["N"]>) -> tensor<?xf32, ["N"]> loc(#loc15)
    "func.return"(%1, %2) : (tensor<?xf32, ["N"]>, tensor<?xf32, ["N"]>) -> () loc(#loc16)
  }) {arg_names = ["x"]} : () -> () loc(#loc12)
}) : () -> () loc(#loc)
#loc = loc("fuse.tir":0:0)
#loc1 = loc("fuse.tir":1:6)
#loc2 = loc("fuse.tir":1:48)
#loc4 = loc("fuse.tir":2:8)
#loc5 = loc("fuse.tir":2:18)
#loc6 = loc("fuse.tir":3:8)
#loc7 = loc("fuse.tir":3:21)
#loc8 = loc("fuse.tir":4:8)
#loc9 = loc("fuse.tir":4:21)
#loc10 = loc("fuse.tir":5:3)
#loc11 = loc("fuse.tir":5:9)
#loc12 = loc(fused[#loc1, #loc2])
#loc13 = loc(fused[#loc4, #loc5])
#loc14 = loc(fused[#loc6, #loc7])
#loc15 = loc(fused[#loc8, #loc9])
#loc16 = loc(fused[#loc10, #loc11])
// -----
#loc3 = loc("<stdin>":415:8)
#loc6 = loc("<stdin>":417:10)
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x9xf32, ["N"]>) -> (tensor<?xf32, ["N"]>, tensor<?xf32, ["N"]>), sym_name = "reductions_of_the_same_rows_are_one_sweep"}> ({
  ^bb0(%arg0: tensor<?x9xf32, ["N"]> loc("<stdin>":415:8)):
    %0:2 = "polyreme.tensor.fused"(%arg0) ({
    ^bb0(%arg1: tensor<?x9xf32, ["N"]> loc("<stdin>":417:10)):
      %1 = "polyreme.tensor.map"(%arg1, %arg1) {fn = "mul"} : (tensor<?x9xf32, ["N"]>, tensor<?x9xf32, ["N"]>) -> tensor<?x9xf32, ["N"]> loc(#loc16)
      %2 = "polyreme.tensor.reduce"(%arg1) {axes = [1], fn = "add", keepdims = false} : (tensor<?x9xf32, ["N"]>) -> tensor<?xf32, ["N"]> loc(#loc17)
      %3 = "polyreme.tensor.reduce"(%1) {axes = [1], fn = "add", keepdims = false} : (tensor<?x9xf32, ["N"]>) -> tensor<?xf32, ["N"]> loc(#loc15)
      "polyreme.tensor.yield"(%2, %3) : (tensor<?xf32, ["N"]>, tensor<?xf32, ["N"]>) -> () loc(#loc11)
    }) : (tensor<?x9xf32, ["N"]>) -> (tensor<?xf32, ["N"]>, tensor<?xf32, ["N"]>) loc(#loc15)
    "func.return"(%0#0, %0#1) : (tensor<?xf32, ["N"]>, tensor<?xf32, ["N"]>) -> () loc(#loc18)
  }) {arg_names = ["x"]} : () -> () loc(#loc14)
}) : () -> () loc(#loc)
#loc = loc("fuse.tir":0:0)
#loc1 = loc("fuse.tir":1:6)
#loc2 = loc("fuse.tir":1:48)
#loc4 = loc("fuse.tir":4:8)
#loc5 = loc("fuse.tir":4:21)
#loc7 = loc("fuse.tir":2:8)
#loc8 = loc("fuse.tir":2:18)
#loc9 = loc("fuse.tir":3:8)
#loc10 = loc("fuse.tir":3:21)
#loc11 = loc(unknown)
#loc12 = loc("fuse.tir":5:3)
#loc13 = loc("fuse.tir":5:9)
#loc14 = loc(fused[#loc1, #loc2])
#loc15 = loc(fused[#loc4, #loc5])
#loc16 = loc(fused[#loc7, #loc8])
#loc17 = loc(fused[#loc9, #loc10])
#loc18 = loc(fused[#loc12, #loc13])
// -----
#loc3 = loc("<stdin>":430:8)
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x9xf32, ["N"]>) -> (tensor<9xf32>, tensor<?xf32, ["N"]>), sym_name = "reductions_along_different_axes_stay_apart"}> ({
  ^bb0(%arg0: tensor<?x9xf32, ["N"]> loc("<stdin>":430:8)):
    %0 = "polyreme.tensor.reduce"(%arg0) {axes = [0], fn = "add", keepdims = false} : (tensor<?x9xf32, ["N"]>) -> tensor<9xf32> loc(#loc11)
    %1 = "polyreme.tensor.reduce"(%arg0) {axes = [1], fn = "add", keepdims = false} : (tensor<?x9xf32, ["N"]>) -> tensor<?xf32, ["N"]> loc(#loc12)
    "func.return"(%0, %1) : (tensor<9xf32>, tensor<?xf32, ["N"]>) -> () loc(#loc13)
  }) {arg_names = ["x"]} : () -> () loc(#loc10)
}) : () -> () loc(#loc)
#loc = loc("fuse.tir":0:0)
#loc1 = loc("fuse.tir":1:6)
#loc2 = loc("fuse.tir":1:49)
#loc4 = loc("fuse.tir":2:8)
#loc5 = loc("fuse.tir":2:21)
#loc6 = loc("fuse.tir":3:8)
#loc7 = loc("fuse.tir":3:21)
#loc8 = loc("fuse.tir":4:3)
#loc9 = loc("fuse.tir":4:9)
#loc10 = loc(fused[#loc1, #loc2])
#loc11 = loc(fused[#loc4, #loc5])
#loc12 = loc(fused[#loc6, #loc7])
#loc13 = loc(fused[#loc8, #loc9])
// -----
#loc3 = loc("<stdin>":440:8)
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x9xf32, ["N"]>) -> (tensor<9xf32>, tensor<?xf32, ["N"]>), sym_name = "reductions_along_different_axes_stay_apart"}> ({
  ^bb0(%arg0: tensor<?x9xf32, ["N"]> loc("<stdin>":440:8)):
    %0 = "polyreme.tensor.reduce"(%arg0) {axes = [0], fn = "add", keepdims = false} : (tensor<?x9xf32, ["N"]>) -> tensor<9xf32> loc(#loc11)
    %1 = "polyreme.tensor.reduce"(%arg0) {axes = [1], fn = "add", keepdims = false} : (tensor<?x9xf32, ["N"]>) -> tensor<?xf32, ["N"]> loc(#loc12)
    "func.return"(%0, %1) : (tensor<9xf32>, tensor<?xf32, ["N"]>) -> () loc(#loc13)
  }) {arg_names = ["x"]} : () -> () loc(#loc10)
}) : () -> () loc(#loc)
#loc = loc("fuse.tir":0:0)
#loc1 = loc("fuse.tir":1:6)
#loc2 = loc("fuse.tir":1:49)
#loc4 = loc("fuse.tir":2:8)
#loc5 = loc("fuse.tir":2:21)
#loc6 = loc("fuse.tir":3:8)
#loc7 = loc("fuse.tir":3:21)
#loc8 = loc("fuse.tir":4:3)
#loc9 = loc("fuse.tir":4:9)
#loc10 = loc(fused[#loc1, #loc2])
#loc11 = loc(fused[#loc4, #loc5])
#loc12 = loc(fused[#loc6, #loc7])
#loc13 = loc(fused[#loc8, #loc9])
// -----
#loc3 = loc("<stdin>":450:8)
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x9xf32, ["N"]>) -> tensor<?x5xf32, ["N"]>, sym_name = "the_pad_of_a_sliding_pooling_is_written_once"}> ({
  ^bb0(%arg0: tensor<?x9xf32, ["N"]> loc("<stdin>":450:8)):
    %0 = "polyreme.tensor.map"(%arg0) {fn = "neg"} : (tensor<?x9xf32, ["N"]>) -> tensor<?x9xf32, ["N"]> loc(#loc15)
    %1 = "polyreme.tensor.pad"(%0) {high = [0, 1], interior = [0, 0], low = [0, 1], value = 0.000000e+00 : f64} : (tensor<?x9xf32, ["N"]>) -> tensor<?x11xf32, ["N"]> loc(#loc16)
    %2 = "polyreme.tensor.window"(%1) {axes = [1], dilations = [1], sizes = [3], strides = [2]} : (tensor<?x11xf32, ["N"]>) -> tensor<?x5x3xf32, ["N"]> loc(#loc17)
    %3 = "polyreme.tensor.reduce"(%2) {axes = [2], fn = "max", keepdims = false} : (tensor<?x5x3xf32, ["N"]>) -> tensor<?x5xf32, ["N"]> loc(#loc18)
    "func.return"(%3) : (tensor<?x5xf32, ["N"]>) -> () loc(#loc19)
  }) {arg_names = ["x"]} : () -> () loc(#loc14)
}) : () -> () loc(#loc)
#loc = loc("fuse.tir":0:0)
#loc1 = loc("fuse.tir":1:6)
#loc2 = loc("fuse.tir":1:51)
#loc4 = loc("fuse.tir":2:8)
#loc5 = loc("fuse.tir":2:18)
#loc6 = loc("fuse.tir":3:8)
#loc7 = loc("fuse.tir":3:18)
#loc8 = loc("fuse.tir":4:8)
#loc9 = loc("fuse.tir":4:21)
#loc10 = loc("fuse.tir":5:8)
#loc11 = loc("fuse.tir":5:21)
#loc12 = loc("fuse.tir":6:3)
#loc13 = loc("fuse.tir":6:9)
#loc14 = loc(fused[#loc1, #loc2])
#loc15 = loc(fused[#loc4, #loc5])
#loc16 = loc(fused[#loc6, #loc7])
#loc17 = loc(fused[#loc8, #loc9])
#loc18 = loc(fused[#loc10, #loc11])
#loc19 = loc(fused[#loc12, #loc13])
// -----
#loc3 = loc("<stdin>":462:8)
#loc6 = loc("<stdin>":464:10)
#loc12 = loc("<stdin>":470:10)
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x9xf32, ["N"]>) -> tensor<?x5xf32, ["N"]>, sym_name = "the_pad_of_a_sliding_pooling_is_written_once"}> ({
  ^bb0(%arg0: tensor<?x9xf32, ["N"]> loc("<stdin>":462:8)):
    %0 = "polyreme.tensor.fused"(%arg0) ({
    ^bb0(%arg2: tensor<?x9xf32, ["N"]> loc("<stdin>":464:10)):
      %4 = "polyreme.tensor.map"(%arg2) {fn = "neg"} : (tensor<?x9xf32, ["N"]>) -> tensor<?x9xf32, ["N"]> loc(#loc19)
      %5 = "polyreme.tensor.pad"(%4) {high = [0, 1], interior = [0, 0], low = [0, 1], value = 0.000000e+00 : f64} : (tensor<?x9xf32, ["N"]>) -> tensor<?x11xf32, ["N"]> loc(#loc18)
      "polyreme.tensor.yield"(%5) : (tensor<?x11xf32, ["N"]>) -> () loc(#loc9)
    }) : (tensor<?x9xf32, ["N"]>) -> tensor<?x11xf32, ["N"]> loc(#loc18)
    %1 = "polyreme.tensor.fused"(%0) ({
    ^bb0(%arg1: tensor<?x11xf32, ["N"]> loc("<stdin>":470:10)):
      %2 = "polyreme.tensor.window"(%arg1) {axes = [1], dilations = [1], sizes = [3], strides = [2]} : (tensor<?x11xf32, ["N"]>) -> tensor<?x5x3xf32, ["N"]> loc(#loc21)
      %3 = "polyreme.tensor.reduce"(%2) {axes = [2], fn = "max", keepdims = false} : (tensor<?x5x3xf32, ["N"]>) -> tensor<?x5xf32, ["N"]> loc(#loc20)
      "polyreme.tensor.yield"(%3) : (tensor<?x5xf32, ["N"]>) -> () loc(#loc9)
    }) : (tensor<?x11xf32, ["N"]>) -> tensor<?x5xf32, ["N"]> loc(#loc20)
    "func.return"(%1) : (tensor<?x5xf32, ["N"]>) -> () loc(#loc22)
  }) {arg_names = ["x"]} : () -> () loc(#loc17)
}) : () -> () loc(#loc)
#loc = loc("fuse.tir":0:0)
#loc1 = loc("fuse.tir":1:6)
#loc2 = loc("fuse.tir":1:51)
#loc4 = loc("fuse.tir":3:8)
#loc5 = loc("fuse.tir":3:18)
#loc7 = loc("fuse.tir":2:8)
#loc8 = loc("fuse.tir":2:18)
#loc9 = loc(unknown)
#loc10 = loc("fuse.tir":5:8)
#loc11 = loc("fuse.tir":5:21)
#loc13 = loc("fuse.tir":4:8)
#loc14 = loc("fuse.tir":4:21)
#loc15 = loc("fuse.tir":6:3)
#loc16 = loc("fuse.tir":6:9)
#loc17 = loc(fused[#loc1, #loc2])
#loc18 = loc(fused[#loc4, #loc5])
#loc19 = loc(fused[#loc7, #loc8])
#loc20 = loc(fused[#loc10, #loc11])
#loc21 = loc(fused[#loc13, #loc14])
#loc22 = loc(fused[#loc15, #loc16])
// -----
#loc3 = loc("<stdin>":482:8)
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<2x4xf32>) -> tensor<2x2xf32>, sym_name = "steps_are_multiplied_as_they_are_and_scales_come_after_the_sum"}> ({
  ^bb0(%arg0: tensor<2x4xf32> loc("<stdin>":482:8)):
    %0 = "polyreme.tensor.full"() {dtype = f32, value = 5.000000e-01 : f64} : () -> tensor<f32> loc(#loc39)
    %1 = "polyreme.tensor.full"() {dtype = f32, value = 2.000000e+00 : f64} : () -> tensor<f32> loc(#loc40)
    %2 = "polyreme.tensor.full"() {dtype = f32, value = -1.280000e+02 : f64} : () -> tensor<f32> loc(#loc41)
    %3 = "polyreme.tensor.full"() {dtype = f32, value = 1.270000e+02 : f64} : () -> tensor<f32> loc(#loc42)
    %4 = "polyreme.tensor.map"(%arg0, %1) {fn = "mul"} : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32> loc(#loc43)
    %5 = "polyreme.tensor.map"(%4) {fn = "round"} : (tensor<2x4xf32>) -> tensor<2x4xf32> loc(#loc44)
    %6 = "polyreme.tensor.map"(%5, %2) {fn = "max"} : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32> loc(#loc45)
    %7 = "polyreme.tensor.map"(%6, %3) {fn = "min"} : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32> loc(#loc46)
    %8 = "polyreme.tensor.map"(%7) {dtype = i8, fn = "cast"} : (tensor<2x4xf32>) -> tensor<2x4xi8> loc(#loc47)
    %9 = "polyreme.tensor.map"(%8) {dtype = f32, fn = "cast"} : (tensor<2x4xi8>) -> tensor<2x4xf32> loc(#loc48)
    %10 = "polyreme.tensor.map"(%9, %0) {fn = "mul"} : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32> loc(#loc49)
    %11 = "polyreme.tensor.constant"() {value = dense<[[1, 2], [3, -4], [5, 6], [-7, 8]]> : tensor<4x2xi8>} : () -> tensor<4x2xi8> loc(#loc50)
    %12 = "polyreme.tensor.constant"() {value = dense<[[2.500000e-01, 1.250000e-01]]> : tensor<1x2xf32>} : () -> tensor<1x2xf32> loc(#loc51)
    %13 = "polyreme.tensor.map"(%11) {dtype = f32, fn = "cast"} : (tensor<4x2xi8>) -> tensor<4x2xf32> loc(#loc52)
    %14 = "polyreme.tensor.map"(%13, %12) {fn = "mul"} : (tensor<4x2xf32>, tensor<1x2xf32>) -> tensor<4x2xf32> loc(#loc53)
    %15 = "polyreme.tensor.contract"(%10, %14) {spec = "mk,kn->mn"} : (tensor<2x4xf32>, tensor<4x2xf32>) -> tensor<2x2xf32> loc(#loc54)
    "func.return"(%15) : (tensor<2x2xf32>) -> () loc(#loc55)
  }) {arg_names = ["x"]} : () -> () loc(#loc38)
}) : () -> () loc(#loc)
#loc = loc("integer-products.tir":0:0)
#loc1 = loc("integer-products.tir":2:6)
#loc2 = loc("integer-products.tir":2:69)
#loc4 = loc("integer-products.tir":3:11)
#loc5 = loc("integer-products.tir":3:22)
#loc6 = loc("integer-products.tir":4:10)
#loc7 = loc("integer-products.tir":4:21)
#loc8 = loc("integer-products.tir":5:10)
#loc9 = loc("integer-products.tir":5:21)
#loc10 = loc("integer-products.tir":6:11)
#loc11 = loc("integer-products.tir":6:22)
#loc12 = loc("integer-products.tir":7:13)
#loc13 = loc("integer-products.tir":7:23)
#loc14 = loc("integer-products.tir":8:12)
#loc15 = loc("integer-products.tir":8:22)
#loc16 = loc("integer-products.tir":9:12)
#loc17 = loc("integer-products.tir":9:22)
#loc18 = loc("integer-products.tir":10:13)
#loc19 = loc("integer-products.tir":10:23)
#loc20 = loc("integer-products.tir":11:12)
#loc21 = loc("integer-products.tir":11:22)
#loc22 = loc("integer-products.tir":12:12)
#loc23 = loc("integer-products.tir":12:22)
#loc24 = loc("integer-products.tir":13:12)
#loc25 = loc("integer-products.tir":13:22)
#loc26 = loc("integer-products.tir":14:8)
#loc27 = loc("integer-products.tir":14:23)
#loc28 = loc("integer-products.tir":15:13)
#loc29 = loc("integer-products.tir":15:28)
#loc30 = loc("integer-products.tir":16:13)
#loc31 = loc("integer-products.tir":16:23)
#loc32 = loc("integer-products.tir":17:13)
#loc33 = loc("integer-products.tir":17:23)
#loc34 = loc("integer-products.tir":18:8)
#loc35 = loc("integer-products.tir":18:23)
#loc36 = loc("integer-products.tir":19:3)
#loc37 = loc("integer-products.tir":19:9)
#loc38 = loc(fused[#loc1, #loc2])
#loc39 = loc(fused[#loc4, #loc5])
#loc40 = loc(fused[#loc6, #loc7])
#loc41 = loc(fused[#loc8, #loc9])
#loc42 = loc(fused[#loc10, #loc11])
#loc43 = loc(fused[#loc12, #loc13])
#loc44 = loc(fused[#loc14, #loc15])
#loc45 = loc(fused[#loc16, #loc17])
#loc46 = loc(fused[#loc18, #loc19])
#loc47 = loc(fused[#loc20, #loc21])
#loc48 = loc(fused[#loc22, #loc23])
#loc49 = loc(fused[#loc24, #loc25])
#loc50 = loc(fused[#loc26, #loc27])
#loc51 = loc(fused[#loc28, #loc29])
#loc52 = loc(fused[#loc30, #loc31])
#loc53 = loc(fused[#loc32, #loc33])
#loc54 = loc(fused[#loc34, #loc35])
#loc55 = loc(fused[#loc36, #loc37])
// -----
#loc3 = loc("<stdin>":506:8)
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<2x4xf32>) -> tensor<2x2xf32>, sym_name = "steps_are_multiplied_as_they_are_and_scales_come_after_the_sum"}> ({
  ^bb0(%arg0: tensor<2x4xf32> loc("<stdin>":506:8)):
    %0 = "polyreme.tensor.full"() {dtype = f32, value = 2.000000e+00 : f64} : () -> tensor<f32> loc(#loc15)
    %1 = "polyreme.tensor.map"(%arg0, %0) {fn = "mul"} : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32> loc(#loc16)
    %2 = "polyreme.tensor.full"() {dtype = f32, value = -128 : i64} : () -> tensor<f32> loc(#loc17)
    %3 = "polyreme.tensor.map"(%1, %2) {fn = "max"} : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32> loc(#loc17)
    %4 = "polyreme.tensor.full"() {dtype = f32, value = 127 : i64} : () -> tensor<f32> loc(#loc17)
    %5 = "polyreme.tensor.map"(%3, %4) {fn = "min"} : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32> loc(#loc17)
    %6 = "polyreme.tensor.map"(%5) {fn = "round"} : (tensor<2x4xf32>) -> tensor<2x4xf32> loc(#loc17)
    %7 = "polyreme.tensor.map"(%6) {dtype = i32, fn = "cast"} : (tensor<2x4xf32>) -> tensor<2x4xi32> loc(#loc17)
    %8 = "polyreme.tensor.full"() {dtype = i32, value = 128 : i64} : () -> tensor<i32> loc(#loc17)
    %9 = "polyreme.tensor.map"(%7, %8) {fn = "add"} : (tensor<2x4xi32>, tensor<i32>) -> tensor<2x4xi32> loc(#loc17)
    %10 = "polyreme.tensor.map"(%9) {dtype = ui8, fn = "cast"} : (tensor<2x4xi32>) -> tensor<2x4xui8> loc(#loc17)
    %11 = "polyreme.tensor.constant"() {value = dense<[[1, 2], [3, -4], [5, 6], [-7, 8]]> : tensor<4x2xi8>} : () -> tensor<4x2xi8> loc(#loc18)
    %12 = "polyreme.tensor.contract"(%10, %11) {dtype = i32, spec = "mk,kn->mn"} : (tensor<2x4xui8>, tensor<4x2xi8>) -> tensor<2x2xi32> loc(#loc18)
    %13 = "polyreme.tensor.constant"() {value = dense<[[-256, -1536]]> : tensor<1x2xi32>} : () -> tensor<1x2xi32> loc(#loc18)
    %14 = "polyreme.tensor.map"(%12, %13) {fn = "add"} : (tensor<2x2xi32>, tensor<1x2xi32>) -> tensor<2x2xi32> loc(#loc18)
    %15 = "polyreme.tensor.map"(%14) {dtype = f32, fn = "cast"} : (tensor<2x2xi32>) -> tensor<2x2xf32> loc(#loc18)
    %16 = "polyreme.tensor.constant"() {value = dense<[[1.250000e-01, 6.250000e-02]]> : tensor<1x2xf32>} : () -> tensor<1x2xf32> loc(#loc18)
    %17 = "polyreme.tensor.map"(%15, %16) {fn = "mul"} : (tensor<2x2xf32>, tensor<1x2xf32>) -> tensor<2x2xf32> loc(#loc18)
    "func.return"(%17) : (tensor<2x2xf32>) -> () loc(#loc19)
  }) {arg_names = ["x"]} : () -> () loc(#loc14)
}) : () -> () loc(#loc)
#loc = loc("integer-products.tir":0:0)
#loc1 = loc("integer-products.tir":2:6)
#loc2 = loc("integer-products.tir":2:69)
#loc4 = loc("integer-products.tir":4:10)
#loc5 = loc("integer-products.tir":4:21)
#loc6 = loc("integer-products.tir":7:13)
#loc7 = loc("integer-products.tir":7:23)
#loc8 = loc("integer-products.tir":11:12)
#loc9 = loc("integer-products.tir":11:22)
#loc10 = loc("integer-products.tir":18:8)
#loc11 = loc("integer-products.tir":18:23)
#loc12 = loc("integer-products.tir":19:3)
#loc13 = loc("integer-products.tir":19:9)
#loc14 = loc(fused[#loc1, #loc2])
#loc15 = loc(fused[#loc4, #loc5])
#loc16 = loc(fused[#loc6, #loc7])
#loc17 = loc(fused[#loc8, #loc9])
#loc18 = loc(fused[#loc10, #loc11])
#loc19 = loc(fused[#loc12, #loc13])
// -----
#loc3 = loc("<stdin>":532:8)
#loc4 = loc("<stdin>":532:28)
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<2x4xi8>, tensor<4x2xi8>) -> tensor<2x2xf32>, sym_name = "weights_that_are_not_known_stay_in_floats"}> ({
  ^bb0(%arg0: tensor<2x4xi8> loc("<stdin>":532:8), %arg1: tensor<4x2xi8> loc("<stdin>":532:28)):
    %0 = "polyreme.tensor.full"() {dtype = f32, value = 5.000000e-01 : f64} : () -> tensor<f32> loc(#loc20)
    %1 = "polyreme.tensor.map"(%arg0) {dtype = f32, fn = "cast"} : (tensor<2x4xi8>) -> tensor<2x4xf32> loc(#loc21)
    %2 = "polyreme.tensor.map"(%1, %0) {fn = "mul"} : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32> loc(#loc22)
    %3 = "polyreme.tensor.map"(%arg1) {dtype = f32, fn = "cast"} : (tensor<4x2xi8>) -> tensor<4x2xf32> loc(#loc23)
    %4 = "polyreme.tensor.map"(%3, %0) {fn = "mul"} : (tensor<4x2xf32>, tensor<f32>) -> tensor<4x2xf32> loc(#loc24)
    %5 = "polyreme.tensor.contract"(%2, %4) {spec = "mk,kn->mn"} : (tensor<2x4xf32>, tensor<4x2xf32>) -> tensor<2x2xf32> loc(#loc25)
    "func.return"(%5) : (tensor<2x2xf32>) -> () loc(#loc26)
  }) {arg_names = ["q", "w"]} : () -> () loc(#loc19)
}) : () -> () loc(#loc)
#loc = loc("integer-products.tir":0:0)
#loc1 = loc("integer-products.tir":1:6)
#loc2 = loc("integer-products.tir":1:48)
#loc5 = loc("integer-products.tir":2:11)
#loc6 = loc("integer-products.tir":2:22)
#loc7 = loc("integer-products.tir":3:12)
#loc8 = loc("integer-products.tir":3:22)
#loc9 = loc("integer-products.tir":4:8)
#loc10 = loc("integer-products.tir":4:18)
#loc11 = loc("integer-products.tir":5:13)
#loc12 = loc("integer-products.tir":5:23)
#loc13 = loc("integer-products.tir":6:13)
#loc14 = loc("integer-products.tir":6:23)
#loc15 = loc("integer-products.tir":7:8)
#loc16 = loc("integer-products.tir":7:23)
#loc17 = loc("integer-products.tir":8:3)
#loc18 = loc("integer-products.tir":8:9)
#loc19 = loc(fused[#loc1, #loc2])
#loc20 = loc(fused[#loc5, #loc6])
#loc21 = loc(fused[#loc7, #loc8])
#loc22 = loc(fused[#loc9, #loc10])
#loc23 = loc(fused[#loc11, #loc12])
#loc24 = loc(fused[#loc13, #loc14])
#loc25 = loc(fused[#loc15, #loc16])
#loc26 = loc(fused[#loc17, #loc18])
// -----
#loc3 = loc("<stdin>":546:8)
#loc4 = loc("<stdin>":546:28)
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<2x4xi8>, tensor<4x2xi8>) -> tensor<2x2xf32>, sym_name = "weights_that_are_not_known_stay_in_floats"}> ({
  ^bb0(%arg0: tensor<2x4xi8> loc("<stdin>":546:8), %arg1: tensor<4x2xi8> loc("<stdin>":546:28)):
    %0 = "polyreme.tensor.full"() {dtype = f32, value = 5.000000e-01 : f64} : () -> tensor<f32> loc(#loc20)
    %1 = "polyreme.tensor.map"(%arg0) {dtype = f32, fn = "cast"} : (tensor<2x4xi8>) -> tensor<2x4xf32> loc(#loc21)
    %2 = "polyreme.tensor.map"(%1, %0) {fn = "mul"} : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32> loc(#loc22)
    %3 = "polyreme.tensor.map"(%arg1) {dtype = f32, fn = "cast"} : (tensor<4x2xi8>) -> tensor<4x2xf32> loc(#loc23)
    %4 = "polyreme.tensor.map"(%3, %0) {fn = "mul"} : (tensor<4x2xf32>, tensor<f32>) -> tensor<4x2xf32> loc(#loc24)
    %5 = "polyreme.tensor.contract"(%2, %4) {spec = "mk,kn->mn"} : (tensor<2x4xf32>, tensor<4x2xf32>) -> tensor<2x2xf32> loc(#loc25)
    "func.return"(%5) : (tensor<2x2xf32>) -> () loc(#loc26)
  }) {arg_names = ["q", "w"]} : () -> () loc(#loc19)
}) : () -> () loc(#loc)
#loc = loc("integer-products.tir":0:0)
#loc1 = loc("integer-products.tir":1:6)
#loc2 = loc("integer-products.tir":1:48)
#loc5 = loc("integer-products.tir":2:11)
#loc6 = loc("integer-products.tir":2:22)
#loc7 = loc("integer-products.tir":3:12)
#loc8 = loc("integer-products.tir":3:22)
#loc9 = loc("integer-products.tir":4:8)
#loc10 = loc("integer-products.tir":4:18)
#loc11 = loc("integer-products.tir":5:13)
#loc12 = loc("integer-products.tir":5:23)
#loc13 = loc("integer-products.tir":6:13)
#loc14 = loc("integer-products.tir":6:23)
#loc15 = loc("integer-products.tir":7:8)
#loc16 = loc("integer-products.tir":7:23)
#loc17 = loc("integer-products.tir":8:3)
#loc18 = loc("integer-products.tir":8:9)
#loc19 = loc(fused[#loc1, #loc2])
#loc20 = loc(fused[#loc5, #loc6])
#loc21 = loc(fused[#loc7, #loc8])
#loc22 = loc(fused[#loc9, #loc10])
#loc23 = loc(fused[#loc11, #loc12])
#loc24 = loc(fused[#loc13, #loc14])
#loc25 = loc(fused[#loc15, #loc16])
#loc26 = loc(fused[#loc17, #loc18])
// -----
#loc3 = loc("<stdin>":560:8)
#loc4 = loc("<stdin>":560:38)
#loc5 = loc("<stdin>":560:59)
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["5*N"]>, tensor<4x8xf32>, tensor<?xf32, ["N"]>) -> tensor<?x5x8xf32, ["N"]>, sym_name = "an_activation_moves_in_front_of_the_reshape_of_a_product"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["5*N"]> loc("<stdin>":560:8), %arg1: tensor<4x8xf32> loc("<stdin>":560:38), %arg2: tensor<?xf32, ["N"]> loc("<stdin>":560:59)):
    %0 = "polyreme.tensor.contract"(%arg0, %arg1) {spec = "mk,kn->mn"} : (tensor<?x4xf32, ["5*N"]>, tensor<4x8xf32>) -> tensor<?x8xf32, ["5*N"]> loc(#loc15)
    %1 = "polyreme.tensor.reshape"(%0) {shape = [#polyreme.size<"N">, 5, 8]} : (tensor<?x8xf32, ["5*N"]>) -> tensor<?x5x8xf32, ["N"]> loc(#loc16)
    %2 = "polyreme.tensor.map"(%1) {fn = "tanh"} : (tensor<?x5x8xf32, ["N"]>) -> tensor<?x5x8xf32, ["N"]> loc(#loc17)
    "func.return"(%2) : (tensor<?x5x8xf32, ["N"]>) -> () loc(#loc18)
  }) {arg_names = ["x", "w", "n"]} : () -> () loc(#loc14)
}) : () -> () loc(#loc)
#loc = loc("sink-reshapes.tir":0:0)
#loc1 = loc("sink-reshapes.tir":2:6)
#loc2 = loc("sink-reshapes.tir":2:63)
#loc6 = loc("sink-reshapes.tir":3:8)
#loc7 = loc("sink-reshapes.tir":3:23)
#loc8 = loc("sink-reshapes.tir":4:8)
#loc9 = loc("sink-reshapes.tir":4:22)
#loc10 = loc("sink-reshapes.tir":5:8)
#loc11 = loc("sink-reshapes.tir":5:18)
#loc12 = loc("sink-reshapes.tir":6:3)
#loc13 = loc("sink-reshapes.tir":6:9)
#loc14 = loc(fused[#loc1, #loc2])
#loc15 = loc(fused[#loc6, #loc7])
#loc16 = loc(fused[#loc8, #loc9])
#loc17 = loc(fused[#loc10, #loc11])
#loc18 = loc(fused[#loc12, #loc13])
// -----
#loc3 = loc("<stdin>":571:8)
#loc4 = loc("<stdin>":571:38)
#loc5 = loc("<stdin>":571:59)
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["5*N"]>, tensor<4x8xf32>, tensor<?xf32, ["N"]>) -> tensor<?x5x8xf32, ["N"]>, sym_name = "an_activation_moves_in_front_of_the_reshape_of_a_product"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["5*N"]> loc("<stdin>":571:8), %arg1: tensor<4x8xf32> loc("<stdin>":571:38), %arg2: tensor<?xf32, ["N"]> loc("<stdin>":571:59)):
    %0 = "polyreme.tensor.contract"(%arg0, %arg1) {spec = "mk,kn->mn"} : (tensor<?x4xf32, ["5*N"]>, tensor<4x8xf32>) -> tensor<?x8xf32, ["5*N"]> loc(#loc13)
    %1 = "polyreme.tensor.map"(%0) {fn = "tanh"} : (tensor<?x8xf32, ["5*N"]>) -> tensor<?x8xf32, ["5*N"]> loc(#loc14)
    %2 = "polyreme.tensor.reshape"(%1) {shape = [#polyreme.size<"N">, 5, 8]} : (tensor<?x8xf32, ["5*N"]>) -> tensor<?x5x8xf32, ["N"]> loc(#loc14)
    "func.return"(%2) : (tensor<?x5x8xf32, ["N"]>) -> () loc(#loc15)
  }) {arg_names = ["x", "w", "n"]} : () -> () loc(#loc12)
}) : () -> () loc(#loc)
#loc = loc("sink-reshapes.tir":0:0)
#loc1 = loc("sink-reshapes.tir":2:6)
#loc2 = loc("sink-reshapes.tir":2:63)
#loc6 = loc("sink-reshapes.tir":3:8)
#loc7 = loc("sink-reshapes.tir":3:23)
#loc8 = loc("sink-reshapes.tir":5:8)
#loc9 = loc("sink-reshapes.tir":5:18)
#loc10 = loc("sink-reshapes.tir":6:3)
#loc11 = loc("sink-reshapes.tir":6:9)
#loc12 = loc(fused[#loc1, #loc2])
#loc13 = loc(fused[#loc6, #loc7])
#loc14 = loc(fused[#loc8, #loc9])
#loc15 = loc(fused[#loc10, #loc11])
// -----
#loc3 = loc("<stdin>":582:8)
#loc4 = loc("<stdin>":582:33)
#loc5 = loc("<stdin>":582:56)
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<2x3x4x5xf32>, tensor<3x5x6xf32>, tensor<1x12x1xf32>) -> tensor<2x12x6xf32>, sym_name = "a_bias_per_channel_is_split_as_the_groups_are"}> ({
  ^bb0(%arg0: tensor<2x3x4x5xf32> loc("<stdin>":582:8), %arg1: tensor<3x5x6xf32> loc("<stdin>":582:33), %arg2: tensor<1x12x1xf32> loc("<stdin>":582:56)):
    %0 = "polyreme.tensor.contract"(%arg0, %arg1) {spec = "ngok,gkm->ngom"} : (tensor<2x3x4x5xf32>, tensor<3x5x6xf32>) -> tensor<2x3x4x6xf32> loc(#loc15)
    %1 = "polyreme.tensor.reshape"(%0) {shape = [2, 12, 6]} : (tensor<2x3x4x6xf32>) -> tensor<2x12x6xf32> loc(#loc16)
    %2 = "polyreme.tensor.map"(%1, %arg2) {fn = "add"} : (tensor<2x12x6xf32>, tensor<1x12x1xf32>) -> tensor<2x12x6xf32> loc(#loc17)
    "func.return"(%2) : (tensor<2x12x6xf32>) -> () loc(#loc18)
  }) {arg_names = ["x", "w", "c"]} : () -> () loc(#loc14)
}) : () -> () loc(#loc)
#loc = loc("sink-reshapes.tir":0:0)
#loc1 = loc("sink-reshapes.tir":1:6)
#loc2 = loc("sink-reshapes.tir":1:52)
#loc6 = loc("sink-reshapes.tir":2:8)
#loc7 = loc("sink-reshapes.tir":2:23)
#loc8 = loc("sink-reshapes.tir":3:8)
#loc9 = loc("sink-reshapes.tir":3:22)
#loc10 = loc("sink-reshapes.tir":4:8)
#loc11 = loc("sink-reshapes.tir":4:18)
#loc12 = loc("sink-reshapes.tir":5:3)
#loc13 = loc("sink-reshapes.tir":5:9)
#loc14 = loc(fused[#loc1, #loc2])
#loc15 = loc(fused[#loc6, #loc7])
#loc16 = loc(fused[#loc8, #loc9])
#loc17 = loc(fused[#loc10, #loc11])
#loc18 = loc(fused[#loc12, #loc13])
// -----
#loc3 = loc("<stdin>":593:8)
#loc4 = loc("<stdin>":593:33)
#loc5 = loc("<stdin>":593:56)
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<2x3x4x5xf32>, tensor<3x5x6xf32>, tensor<1x12x1xf32>) -> tensor<2x12x6xf32>, sym_name = "a_bias_per_channel_is_split_as_the_groups_are"}> ({
  ^bb0(%arg0: tensor<2x3x4x5xf32> loc("<stdin>":593:8), %arg1: tensor<3x5x6xf32> loc("<stdin>":593:33), %arg2: tensor<1x12x1xf32> loc("<stdin>":593:56)):
    %0 = "polyreme.tensor.contract"(%arg0, %arg1) {spec = "ngok,gkm->ngom"} : (tensor<2x3x4x5xf32>, tensor<3x5x6xf32>) -> tensor<2x3x4x6xf32> loc(#loc13)
    %1 = "polyreme.tensor.reshape"(%arg2) {shape = [1, 3, 4, 1]} : (tensor<1x12x1xf32>) -> tensor<1x3x4x1xf32> loc(#loc14)
    %2 = "polyreme.tensor.map"(%0, %1) {fn = "add"} : (tensor<2x3x4x6xf32>, tensor<1x3x4x1xf32>) -> tensor<2x3x4x6xf32> loc(#loc14)
    %3 = "polyreme.tensor.reshape"(%2) {shape = [2, 12, 6]} : (tensor<2x3x4x6xf32>) -> tensor<2x12x6xf32> loc(#loc14)
    "func.return"(%3) : (tensor<2x12x6xf32>) -> () loc(#loc15)
  }) {arg_names = ["x", "w", "c"]} : () -> () loc(#loc12)
}) : () -> () loc(#loc)
#loc = loc("sink-reshapes.tir":0:0)
#loc1 = loc("sink-reshapes.tir":1:6)
#loc2 = loc("sink-reshapes.tir":1:52)
#loc6 = loc("sink-reshapes.tir":2:8)
#loc7 = loc("sink-reshapes.tir":2:23)
#loc8 = loc("sink-reshapes.tir":4:8)
#loc9 = loc("sink-reshapes.tir":4:18)
#loc10 = loc("sink-reshapes.tir":5:3)
#loc11 = loc("sink-reshapes.tir":5:9)
#loc12 = loc(fused[#loc1, #loc2])
#loc13 = loc(fused[#loc6, #loc7])
#loc14 = loc(fused[#loc8, #loc9])
#loc15 = loc(fused[#loc10, #loc11])
// -----
#loc3 = loc("<stdin>":605:8)
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<6x4xf32>) -> tensor<24xf32>, sym_name = "what_is_not_a_product_keeps_its_shape"}> ({
  ^bb0(%arg0: tensor<6x4xf32> loc("<stdin>":605:8)):
    %0 = "polyreme.tensor.reshape"(%arg0) {shape = [24]} : (tensor<6x4xf32>) -> tensor<24xf32> loc(#loc11)
    %1 = "polyreme.tensor.map"(%0) {fn = "tanh"} : (tensor<24xf32>) -> tensor<24xf32> loc(#loc12)
    "func.return"(%1) : (tensor<24xf32>) -> () loc(#loc13)
  }) {arg_names = ["x"]} : () -> () loc(#loc10)
}) : () -> () loc(#loc)
#loc = loc("sink-reshapes.tir":0:0)
#loc1 = loc("sink-reshapes.tir":1:6)
#loc2 = loc("sink-reshapes.tir":1:44)
#loc4 = loc("sink-reshapes.tir":2:8)
#loc5 = loc("sink-reshapes.tir":2:22)
#loc6 = loc("sink-reshapes.tir":3:8)
#loc7 = loc("sink-reshapes.tir":3:18)
#loc8 = loc("sink-reshapes.tir":4:3)
#loc9 = loc("sink-reshapes.tir":4:9)
#loc10 = loc(fused[#loc1, #loc2])
#loc11 = loc(fused[#loc4, #loc5])
#loc12 = loc(fused[#loc6, #loc7])
#loc13 = loc(fused[#loc8, #loc9])
// -----
#loc3 = loc("<stdin>":615:8)
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<6x4xf32>) -> tensor<24xf32>, sym_name = "what_is_not_a_product_keeps_its_shape"}> ({
  ^bb0(%arg0: tensor<6x4xf32> loc("<stdin>":615:8)):
    %0 = "polyreme.tensor.reshape"(%arg0) {shape = [24]} : (tensor<6x4xf32>) -> tensor<24xf32> loc(#loc11)
    %1 = "polyreme.tensor.map"(%0) {fn = "tanh"} : (tensor<24xf32>) -> tensor<24xf32> loc(#loc12)
    "func.return"(%1) : (tensor<24xf32>) -> () loc(#loc13)
  }) {arg_names = ["x"]} : () -> () loc(#loc10)
}) : () -> () loc(#loc)
#loc = loc("sink-reshapes.tir":0:0)
#loc1 = loc("sink-reshapes.tir":1:6)
#loc2 = loc("sink-reshapes.tir":1:44)
#loc4 = loc("sink-reshapes.tir":2:8)
#loc5 = loc("sink-reshapes.tir":2:22)
#loc6 = loc("sink-reshapes.tir":3:8)
#loc7 = loc("sink-reshapes.tir":3:18)
#loc8 = loc("sink-reshapes.tir":4:3)
#loc9 = loc("sink-reshapes.tir":4:9)
#loc10 = loc(fused[#loc1, #loc2])
#loc11 = loc(fused[#loc4, #loc5])
#loc12 = loc(fused[#loc6, #loc7])
#loc13 = loc(fused[#loc8, #loc9])
// -----
#loc3 = loc("<stdin>":625:8)
#loc10 = loc("<stdin>":630:8)
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x?xf32, ["M", "K"]>) -> tensor<?x?xf32, ["2*M", "K"]>, sym_name = "double"}> ({
  ^bb0(%arg1: tensor<?x?xf32, ["M", "K"]> loc("<stdin>":625:8)):
    %4 = "polyreme.tensor.concat"(%arg1, %arg1) {axis = 0 : i64} : (tensor<?x?xf32, ["M", "K"]>, tensor<?x?xf32, ["M", "K"]>) -> tensor<?x?xf32, ["2*M", "K"]> loc(#loc22)
    "func.return"(%4) : (tensor<?x?xf32, ["2*M", "K"]>) -> () loc(#loc23)
  }) {arg_names = ["x"]} : () -> () loc(#loc21)
  "func.func"() <{function_type = (tensor<?x?xf32, ["N", "K"]>) -> (tensor<?x?xf32, ["2*N", "K"]>, tensor<i64>), sym_name = "main"}> ({
  ^bb0(%arg0: tensor<?x?xf32, ["N", "K"]> loc("<stdin>":630:8)):
    %0 = "polyreme.func.call"(%arg0) {callee = @double} : (tensor<?x?xf32, ["N", "K"]>) -> tensor<?x?xf32, ["2*N", "K"]> loc(#loc25)
    %1 = "polyreme.tensor.map"(%0, %0) {fn = "add"} : (tensor<?x?xf32, ["2*N", "K"]>, tensor<?x?xf32, ["2*N", "K"]>) -> tensor<?x?xf32, ["2*N", "K"]> loc(#loc26)
    %2 = "polyreme.tensor.map"(%1) {fn = "neg"} : (tensor<?x?xf32, ["2*N", "K"]>) -> tensor<?x?xf32, ["2*N", "K"]> loc(#loc27)
    %3 = "polyreme.tensor.dim_value"() {dtype = i64, size = #polyreme.size<"2*N">} : () -> tensor<i64> loc(#loc28)
    "func.return"(%2, %3) : (tensor<?x?xf32, ["2*N", "K"]>, tensor<i64>) -> () loc(#loc29)
  }) {arg_names = ["x"]} : () -> () loc(#loc24)
}) : () -> () loc(#loc)
#loc = loc("calls.tir":0:0)
#loc1 = loc("calls.tir":5:6)
#loc2 = loc("calls.tir":5:13)
#loc4 = loc("calls.tir":6:8)
#loc5 = loc("calls.tir":6:21)
#loc6 = loc("calls.tir":7:3)
#loc7 = loc("calls.tir":7:9)
#loc8 = loc("calls.tir":9:6)
#loc9 = loc("calls.tir":9:11)
#loc11 = loc("calls.tir":10:8)
#loc12 = loc("calls.tir":10:17)
#loc13 = loc("calls.tir":11:8)
#loc14 = loc("calls.tir":11:18)
#loc15 = loc("calls.tir":12:8)
#loc16 = loc("calls.tir":12:18)
#loc17 = loc("calls.tir":13:8)
#loc18 = loc("calls.tir":13:24)
#loc19 = loc("calls.tir":14:3)
#loc20 = loc("calls.tir":14:9)
#loc21 = loc(fused[#loc1, #loc2])
#loc22 = loc(fused[#loc4, #loc5])
#loc23 = loc(fused[#loc6, #loc7])
#loc24 = loc(fused[#loc8, #loc9])
#loc25 = loc(fused[#loc11, #loc12])
#loc26 = loc(fused[#loc13, #loc14])
#loc27 = loc(fused[#loc15, #loc16])
#loc28 = loc(fused[#loc17, #loc18])
#loc29 = loc(fused[#loc19, #loc20])
// -----
#loc3 = loc("<stdin>":642:8)
#loc4 = loc("<stdin>":642:51)
#loc15 = loc("<stdin>":648:10)
#loc20 = loc("<stdin>":651:12)
#loc21 = loc("<stdin>":651:23)
#loc38 = loc("<stdin>":663:8)
#loc39 = loc("<stdin>":663:51)
"builtin.module"() ({
  "func.func"() <{function_type = (!polyreme.buffer<?x?xf32, ["N", "K"]>, !polyreme.buffer<?xf32, ["N"]>) -> (), sym_name = "sum_rows"}> ({
  ^bb0(%arg2: !polyreme.buffer<?x?xf32, ["N", "K"]> loc("<stdin>":642:8), %arg3: !polyreme.buffer<?xf32, ["N"]> loc("<stdin>":642:51)):
    %0 = "polyreme.kernel.size"() {value = #polyreme.size<"N">} : () -> index loc(#loc45)
    %1 = "polyreme.kernel.size"() {value = #polyreme.size<"K">} : () -> index loc(#loc46)
    %2 = "polyreme.kernel.size"() {value = 0 : i64} : () -> index loc(#loc47)
    %3 = "polyreme.kernel.constant"() {dtype = f32, value = 0.000000e+00 : f64} : () -> f32 loc(#loc48)
    "polyreme.kernel.parallel"(%0) ({
    ^bb0(%arg4: index loc("<stdin>":648:10)):
      %4 = "polyreme.kernel.apply"(%arg4, %1) {fn = "mul"} : (index, index) -> index loc(#loc50)
      %5 = "polyreme.kernel.for"(%2, %1, %3) ({
      ^bb0(%arg5: index loc("<stdin>":651:12), %arg6: f32 loc("<stdin>":651:23)):
        %6 = "polyreme.kernel.apply"(%4, %arg5) {fn = "add"} : (index, index) -> index loc(#loc52)
        %7 = "polyreme.kernel.load"(%arg2, %6) {lanes = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 0>} : (!polyreme.buffer<?x?xf32, ["N", "K"]>, index) -> f32 loc(#loc53)
        %8 = "polyreme.kernel.apply"(%arg6, %7) {fn = "add"} : (f32, f32) -> f32 loc(#loc54)
        "polyreme.kernel.yield"(%8) : (f32) -> () loc(#loc55)
      }) {operandSegmentSizes = array<i32: 1, 1, 1>, step = 1 : i64} : (index, index, f32) -> f32 loc(#loc51)
      "polyreme.kernel.store"(%5, %arg3, %arg4) {operandSegmentSizes = array<i32: 1, 1, 1, 0>, streaming = false} : (f32, !polyreme.buffer<?xf32, ["N"]>, index) -> () loc(#loc56)
      "polyreme.kernel.yield"() : () -> () loc(#loc57)
    }) {grain = 1 : i64} : (index) -> () loc(#loc49)
    "func.return"() : () -> () loc(#loc58)
  }) {arg_names = ["x", "y"]} : () -> () loc(#loc44)
  "func.func"() <{function_type = (!polyreme.buffer<?x?xf32, ["N", "K"]>, !polyreme.buffer<?xf32, ["N"]>) -> (), sym_name = "main"}> ({
  ^bb0(%arg0: !polyreme.buffer<?x?xf32, ["N", "K"]> loc("<stdin>":663:8), %arg1: !polyreme.buffer<?xf32, ["N"]> loc("<stdin>":663:51)):
    "polyreme.kernel.call"(%arg0, %arg1) {callee = @sum_rows} : (!polyreme.buffer<?x?xf32, ["N", "K"]>, !polyreme.buffer<?xf32, ["N"]>) -> () loc(#loc60)
    "func.return"() : () -> () loc(#loc61)
  }) {arg_names = ["x", "y"], arg_roles = ["input", "output"]} : () -> () loc(#loc59)
}) : () -> () loc(#loc)
#loc = loc("calls.tir":0:0)
#loc1 = loc("calls.tir":4:6)
#loc2 = loc("calls.tir":4:15)
#loc5 = loc("calls.tir":5:8)
#loc6 = loc("calls.tir":5:19)
#loc7 = loc("calls.tir":6:8)
#loc8 = loc("calls.tir":6:19)
#loc9 = loc("calls.tir":7:12)
#loc10 = loc("calls.tir":7:23)
#loc11 = loc("calls.tir":8:11)
#loc12 = loc("calls.tir":8:26)
#loc13 = loc("calls.tir":9:3)
#loc14 = loc("calls.tir":9:18)
#loc16 = loc("calls.tir":10:12)
#loc17 = loc("calls.tir":10:24)
#loc18 = loc("calls.tir":11:12)
#loc19 = loc("calls.tir":11:22)
#loc22 = loc("calls.tir":12:13)
#loc23 = loc("calls.tir":12:25)
#loc24 = loc("calls.tir":13:12)
#loc25 = loc("calls.tir":13:23)
#loc26 = loc("calls.tir":14:15)
#loc27 = loc("calls.tir":14:27)
#loc28 = loc("calls.tir":15:7)
#loc29 = loc("calls.tir":15:19)
#loc30 = loc("calls.tir":17:5)
#loc31 = loc("calls.tir":17:17)
#loc32 = loc("calls.tir":18:5)
#loc33 = loc("calls.tir":18:17)
#loc34 = loc("calls.tir":20:3)
#loc35 = loc("calls.tir":20:9)
#loc36 = loc("calls.tir":22:6)
#loc37 = loc("calls.tir":22:11)
#loc40 = loc("calls.tir":23:3)
#loc41 = loc("calls.tir":23:14)
#loc42 = loc("calls.tir":24:3)
#loc43 = loc("calls.tir":24:9)
#loc44 = loc(fused[#loc1, #loc2])
#loc45 = loc(fused[#loc5, #loc6])
#loc46 = loc(fused[#loc7, #loc8])
#loc47 = loc(fused[#loc9, #loc10])
#loc48 = loc(fused[#loc11, #loc12])
#loc49 = loc(fused[#loc13, #loc14])
#loc50 = loc(fused[#loc16, #loc17])
#loc51 = loc(fused[#loc18, #loc19])
#loc52 = loc(fused[#loc22, #loc23])
#loc53 = loc(fused[#loc24, #loc25])
#loc54 = loc(fused[#loc26, #loc27])
#loc55 = loc(fused[#loc28, #loc29])
#loc56 = loc(fused[#loc30, #loc31])
#loc57 = loc(fused[#loc32, #loc33])
#loc58 = loc(fused[#loc34, #loc35])
#loc59 = loc(fused[#loc36, #loc37])
#loc60 = loc(fused[#loc40, #loc41])
#loc61 = loc(fused[#loc42, #loc43])
// -----
"builtin.module"() ({
  "func.func"() <{function_type = () -> (), sym_name = "numbers"}> ({
    %0 = "polyreme.tensor.full"() {dtype = i32, shape = [2], value = 1 : i64} : () -> tensor<2xi32> loc(#loc20)
    %1 = "polyreme.tensor.full"() {dtype = f32, value = 1.000000e+00 : f64} : () -> tensor<f32> loc(#loc21)
    %2 = "polyreme.tensor.full"() {dtype = i1, shape = [2], value = true} : () -> tensor<2xi1> loc(#loc22)
    %3 = "polyreme.tensor.full"() {dtype = f32, shape = [2], value = 0xFFF0000000000000 : f64} : () -> tensor<2xf32> loc(#loc23)
    %4 = "polyreme.tensor.full"() {dtype = f64, shape = [2], value = 0x7FF8000000000000 : f64} : () -> tensor<2xf64> loc(#loc24)
    %5 = "polyreme.tensor.full"() {dtype = f64, shape = [0], value = -1.500000e-300 : f64} : () -> tensor<0xf64> loc(#loc25)
    %6 = "polyreme.tensor.full"() {dtype = f64, value = 1.000000e+22 : f64} : () -> tensor<f64> loc(#loc26)
    "func.return"() : () -> () loc(#loc27)
  }) : () -> () loc(#loc19)
}) : () -> () loc(#loc)
#loc = loc("attributes.tir":0:0)
#loc1 = loc("attributes.tir":3:6)
#loc2 = loc("attributes.tir":3:14)
#loc3 = loc("attributes.tir":4:8)
#loc4 = loc("attributes.tir":4:19)
#loc5 = loc("attributes.tir":5:8)
#loc6 = loc("attributes.tir":5:19)
#loc7 = loc("attributes.tir":6:8)
#loc8 = loc("attributes.tir":6:19)
#loc9 = loc("attributes.tir":7:8)
#loc10 = loc("attributes.tir":7:19)
#loc11 = loc("attributes.tir":8:8)
#loc12 = loc("attributes.tir":8:19)
#loc13 = loc("attributes.tir":9:8)
#loc14 = loc("attributes.tir":9:19)
#loc15 = loc("attributes.tir":10:8)
#loc16 = loc("attributes.tir":10:19)
#loc17 = loc("attributes.tir":11:3)
#loc18 = loc("attributes.tir":11:9)
#loc19 = loc(fused[#loc1, #loc2])
#loc20 = loc(fused[#loc3, #loc4])
#loc21 = loc(fused[#loc5, #loc6])
#loc22 = loc(fused[#loc7, #loc8])
#loc23 = loc(fused[#loc9, #loc10])
#loc24 = loc(fused[#loc11, #loc12])
#loc25 = loc(fused[#loc13, #loc14])
#loc26 = loc(fused[#loc15, #loc16])
#loc27 = loc(fused[#loc17, #loc18])
// -----
#loc3 = loc("<stdin>":686:8)
#loc4 = loc("<stdin>":686:52)
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x?x?xf32, ["N", "2*T+1", "T"]>, tensor<?x?x?xi64, ["inf", "f32", "true"]>) -> (), sym_name = "sizes"}> ({
  ^bb0(%arg0: tensor<?x?x?xf32, ["N", "2*T+1", "T"]> loc("<stdin>":686:8), %arg1: tensor<?x?x?xi64, ["inf", "f32", "true"]> loc("<stdin>":686:52)):
    %0 = "polyreme.tensor.full"() {dtype = f32, shape = [#polyreme.size<"2*N+1">, #polyreme.size<"N*T-T">, #polyreme.size<"2*N-1">], value = 0.000000e+00 : f64} : () -> tensor<?x?x?xf32, ["2*N+1", "N*T-T", "2*N-1"]> loc(#loc14)
    %1 = "polyreme.tensor.full"() {dtype = f32, shape = [#polyreme.size<"inf">, #polyreme.size<"f32">, #polyreme.size<"true">], value = 0.000000e+00 : f64} : () -> tensor<?x?x?xf32, ["inf", "f32", "true"]> loc(#loc15)
    %2 = "polyreme.tensor.full"() {dtype = bf16, shape = [#polyreme.size<"max(2*T, N)">, #polyreme.size<"floordiv(N, 2)">, #polyreme.size<"mod(N, T)">], value = 0.000000e+00 : f64} : () -> tensor<?x?x?xbf16, ["max(2*T, N)", "floordiv(N, 2)", "mod(N, T)"]> loc(#loc16)
    "func.return"() : () -> () loc(#loc17)
  }) {arg_names = ["x", "y"]} : () -> () loc(#loc13)
}) : () -> () loc(#loc)
#loc = loc("attributes.tir":0:0)
#loc1 = loc("attributes.tir":2:6)
#loc2 = loc("attributes.tir":2:12)
#loc5 = loc("attributes.tir":3:8)
#loc6 = loc("attributes.tir":3:19)
#loc7 = loc("attributes.tir":4:8)
#loc8 = loc("attributes.tir":4:19)
#loc9 = loc("attributes.tir":5:8)
#loc10 = loc("attributes.tir":5:19)
#loc11 = loc("attributes.tir":6:3)
#loc12 = loc("attributes.tir":6:9)
#loc13 = loc(fused[#loc1, #loc2])
#loc14 = loc(fused[#loc5, #loc6])
#loc15 = loc(fused[#loc7, #loc8])
#loc16 = loc(fused[#loc9, #loc10])
#loc17 = loc(fused[#loc11, #loc12])
// -----
#loc3 = loc("<stdin>":697:8)
#loc4 = loc("<stdin>":697:38)
#loc5 = loc("<stdin>":697:57)
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["box"]>, tensor<index>, tensor<2xcomplex<f64>>) -> (), sym_name = "boxes"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["box"]> loc("<stdin>":697:8), %arg1: tensor<index> loc("<stdin>":697:38), %arg2: tensor<2xcomplex<f64>> loc("<stdin>":697:57)):
    "func.return"() : () -> () loc(#loc9)
  }) {arg_names = ["x", "y", "z"]} : () -> () loc(#loc8)
}) : () -> () loc(#loc)
#loc = loc("attributes.tir":0:0)
#loc1 = loc("attributes.tir":2:6)
#loc2 = loc("attributes.tir":2:12)
#loc6 = loc("attributes.tir":3:3)
#loc7 = loc("attributes.tir":3:9)
#loc8 = loc(fused[#loc1, #loc2])
#loc9 = loc(fused[#loc6, #loc7])
// -----
#loc3 = loc("<stdin>":705:8)
#loc8 = loc("<stdin>":709:8)
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<4xf32>) -> tensor<4xf32>, sym_name = "two words"}> ({
  ^bb0(%arg1: tensor<4xf32> loc("<stdin>":705:8)):
    "func.return"(%arg1) : (tensor<4xf32>) -> () loc(#loc14)
  }) {arg_names = ["x"]} : () -> () loc(#loc13)
  "func.func"() <{function_type = (tensor<4xf32>) -> tensor<4xf32>, sym_name = "main"}> ({
  ^bb0(%arg0: tensor<4xf32> loc("<stdin>":709:8)):
    %0 = "polyreme.func.call"(%arg0) {callee = @"two words"} : (tensor<4xf32>) -> tensor<4xf32> loc(#loc16)
    "func.return"(%0) : (tensor<4xf32>) -> () loc(#loc17)
  }) {arg_names = ["x"]} : () -> () loc(#loc15)
}) : () -> () loc(#loc)
#loc = loc("attributes.tir":0:0)
#loc1 = loc("attributes.tir":2:6)
#loc2 = loc("attributes.tir":2:18)
#loc4 = loc("attributes.tir":3:3)
#loc5 = loc("attributes.tir":3:9)
#loc6 = loc("attributes.tir":5:6)
#loc7 = loc("attributes.tir":5:11)
#loc9 = loc("attributes.tir":6:8)
#loc10 = loc("attributes.tir":6:17)
#loc11 = loc("attributes.tir":7:3)
#loc12 = loc("attributes.tir":7:9)
#loc13 = loc(fused[#loc1, #loc2])
#loc14 = loc(fused[#loc4, #loc5])
#loc15 = loc(fused[#loc6, #loc7])
#loc16 = loc(fused[#loc9, #loc10])
#loc17 = loc(fused[#loc11, #loc12])
// -----
"builtin.module"() ({
  "func.func"() <{function_type = () -> (), sym_name = "small"}> ({
    %0 = "polyreme.tensor.constant"() {value = dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi64>} : () -> tensor<2x3xi64> loc(#loc24)
    %1 = "polyreme.tensor.constant"() {value = dense<1.000000e-01> : tensor<100x100xf32>} : () -> tensor<100x100xf32> loc(#loc25)
    %2 = "polyreme.tensor.constant"() {value = dense<[true, false]> : tensor<2xi1>} : () -> tensor<2xi1> loc(#loc26)
    %3 = "polyreme.tensor.constant"() {value = dense_resource<m54_d> : tensor<6xf32>} : () -> tensor<6xf32> loc(#loc27)
    %4 = "polyreme.tensor.constant"() {value = dense<[(1.000000e+00,2.000000e+00), (5.000000e-01,-1.000000e+00)]> : tensor<2xcomplex<f32>>} : () -> tensor<2xcomplex<f32>> loc(#loc28)
    %5 = "polyreme.tensor.constant"() {value = dense<> : tensor<3x0xf32>} : () -> tensor<3x0xf32> loc(#loc29)
    %6 = "polyreme.tensor.constant"() {value = dense<2.500000e+00> : tensor<f32>} : () -> tensor<f32> loc(#loc30)
    %7 = "polyreme.tensor.constant"() {value = dense<[18446744073709551615, 0]> : tensor<2xui64>} : () -> tensor<2xui64> loc(#loc31)
    %8 = "polyreme.tensor.constant"() {value = dense<[1.500000e+00, 3.250000e+00]> : tensor<2xbf16>} : () -> tensor<2xbf16> loc(#loc32)
    "func.return"() : () -> () loc(#loc33)
  }) : () -> () loc(#loc23)
}) : () -> () loc(#loc)
#loc = loc("constants.tir":0:0)
#loc1 = loc("constants.tir":3:6)
#loc2 = loc("constants.tir":3:12)
#loc3 = loc("constants.tir":4:8)
#loc4 = loc("constants.tir":4:23)
#loc5 = loc("constants.tir":5:8)
#loc6 = loc("constants.tir":5:23)
#loc7 = loc("constants.tir":6:8)
#loc8 = loc("constants.tir":6:23)
#loc9 = loc("constants.tir":7:8)
#loc10 = loc("constants.tir":7:23)
#loc11 = loc("constants.tir":8:8)
#loc12 = loc("constants.tir":8:23)
#loc13 = loc("constants.tir":9:8)
#loc14 = loc("constants.tir":9:23)
#loc15 = loc("constants.tir":10:8)
#loc16 = loc("constants.tir":10:23)
#loc17 = loc("constants.tir":11:8)
#loc18 = loc("constants.tir":11:23)
#loc19 = loc("constants.tir":12:8)
#loc20 = loc("constants.tir":12:23)
#loc21 = loc("constants.tir":13:3)
#loc22 = loc("constants.tir":13:9)
#loc23 = loc(fused[#loc1, #loc2])
#loc24 = loc(fused[#loc3, #loc4])
#loc25 = loc(fused[#loc5, #loc6])
#loc26 = loc(fused[#loc7, #loc8])
#loc27 = loc(fused[#loc9, #loc10])
#loc28 = loc(fused[#loc11, #loc12])
#loc29 = loc(fused[#loc13, #loc14])
#loc30 = loc(fused[#loc15, #loc16])
#loc31 = loc(fused[#loc17, #loc18])
#loc32 = loc(fused[#loc19, #loc20])
#loc33 = loc(fused[#loc21, #loc22])

{-#
  dialect_resources: {
    builtin: {
      m54_d: "0x400000000000803F000000800000807F000080FF0000C07F01000000"
    }
  }
#-}
// -----
"builtin.module"() ({
  "func.func"() <{function_type = () -> (), sym_name = "bytes"}> ({
    %0 = "polyreme.tensor.constant"() {value = dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>} : () -> tensor<2xf32> loc(#loc10)
    %1 = "polyreme.tensor.constant"() {value = dense_resource<m55_b> : tensor<2xf32>} : () -> tensor<2xf32> loc(#loc11)
    "func.return"() : () -> () loc(#loc12)
  }) : () -> () loc(#loc9)
}) : () -> () loc(#loc)
#loc = loc("constants.tir":0:0)
#loc1 = loc("constants.tir":2:6)
#loc2 = loc("constants.tir":2:12)
#loc3 = loc("constants.tir":3:8)
#loc4 = loc("constants.tir":3:23)
#loc5 = loc("constants.tir":4:8)
#loc6 = loc("constants.tir":4:23)
#loc7 = loc("constants.tir":5:3)
#loc8 = loc("constants.tir":5:9)
#loc9 = loc(fused[#loc1, #loc2])
#loc10 = loc(fused[#loc3, #loc4])
#loc11 = loc(fused[#loc5, #loc6])
#loc12 = loc(fused[#loc7, #loc8])

{-#
  dialect_resources: {
    builtin: {
      m55_b: "0x400000000100C07F00000040"
    }
  }
#-}
// -----
#loc4 = loc("<stdin>":759:8)
#loc5 = loc("<stdin>":759:36)
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>, tensor<?xf32, ["2*N"]>) -> tensor<?x8xf32, ["N"]>, sym_name = "main"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]> loc("<stdin>":759:8), %arg1: tensor<?xf32, ["2*N"]> loc("<stdin>":759:36)):
    %0 = "polyreme.tensor.map"(%arg0) {fn = "neg"} : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]> loc(#loc16)
    %1 = "polyreme.tensor.concat"(%0, %arg0) {axis = 1 : i64} : (tensor<?x4xf32, ["N"]>, tensor<?x4xf32, ["N"]>) -> tensor<?x8xf32, ["N"]> loc(#loc17)
    %2 = "polyreme.tensor.full"() {dtype = f32, shape = [#polyreme.size<"2*N">, 3], value = 0x7FF0000000000000 : f64} : () -> tensor<?x3xf32, ["2*N"]> loc(#loc18)
    "func.return"(%1) : (tensor<?x8xf32, ["N"]>) -> () loc(#loc19)
  }) {arg_names = ["x", "y"]} : () -> () loc(#loc15)
}) : () -> () loc(#loc14)
#loc = loc("generic.tir":3:1)
#loc1 = loc("generic.tir":3:17)
#loc2 = loc("generic.tir":4:3)
#loc3 = loc("generic.tir":4:14)
#loc6 = loc("generic.tir":6:10)
#loc7 = loc("generic.tir":6:31)
#loc8 = loc("generic.tir":7:10)
#loc9 = loc("generic.tir":7:34)
#loc10 = loc("generic.tir":8:10)
#loc11 = loc("generic.tir":8:32)
#loc12 = loc("generic.tir":9:5)
#loc13 = loc("generic.tir":9:18)
#loc14 = loc(fused[#loc, #loc1])
#loc15 = loc(fused[#loc2, #loc3])
#loc16 = loc(fused[#loc6, #loc7])
#loc17 = loc(fused[#loc8, #loc9])
#loc18 = loc(fused[#loc10, #loc11])
#loc19 = loc(fused[#loc12, #loc13])
// -----
#loc3 = loc("<stdin>":770:8)
#loc8 = loc("<stdin>":773:10)
"builtin.module"() ({
  "func.func"() <{function_type = (!polyreme.buffer<?x4xf32, ["N"]>) -> (), sym_name = "main"}> ({
  ^bb0(%arg0: !polyreme.buffer<?x4xf32, ["N"]> loc("<stdin>":770:8)):
    %0 = "polyreme.kernel.size"() {value = #polyreme.size<"4*N">} : () -> index loc(#loc14)
    "polyreme.kernel.parallel"(%0) ({
    ^bb0(%arg1: index loc("<stdin>":773:10)):
      "polyreme.kernel.yield"() : () -> () loc(#loc16)
    }) {grain = 1 : i64} : (index) -> () loc(#loc15)
    "func.return"() : () -> () loc(#loc17)
  }) {arg_names = ["x"]} : () -> () loc(#loc13)
}) : () -> () loc(#loc)
#loc = loc("generic.tir":0:0)
#loc1 = loc("generic.tir":2:1)
#loc2 = loc("generic.tir":2:12)
#loc4 = loc("generic.tir":4:8)
#loc5 = loc("generic.tir":4:30)
#loc6 = loc("generic.tir":5:3)
#loc7 = loc("generic.tir":5:29)
#loc9 = loc("generic.tir":7:5)
#loc10 = loc("generic.tir":7:28)
#loc11 = loc("generic.tir":9:3)
#loc12 = loc("generic.tir":9:16)
#loc13 = loc(fused[#loc1, #loc2])
#loc14 = loc(fused[#loc4, #loc5])
#loc15 = loc(fused[#loc6, #loc7])
#loc16 = loc(fused[#loc9, #loc10])
#loc17 = loc(fused[#loc11, #loc12])
// -----
#loc2 = loc("<stdin>":783:8)
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<4xf32>) -> tensor<4xf32>, sym_name = "main"}> ({
  ^bb0(%arg0: tensor<4xf32> loc("<stdin>":783:8)):
    %0 = "polyreme.tensor.map"(%arg0) {fn = "exp"} : (tensor<4xf32>) -> tensor<4xf32> loc(#loc3)
    %1 = "polyreme.tensor.map"(%0) {fn = "exp"} : (tensor<4xf32>) -> tensor<4xf32> loc(#loc10)
    %2 = "polyreme.tensor.map"(%1) {fn = "exp"} : (tensor<4xf32>) -> tensor<4xf32> loc(#loc11)
    %3 = "polyreme.tensor.map"(%2) {fn = "exp"} : (tensor<4xf32>) -> tensor<4xf32> loc(#loc6)
    %4 = "polyreme.tensor.map"(%3) {fn = "exp"} : (tensor<4xf32>) -> tensor<4xf32> loc(#loc7)
    "func.return"(%4) : (tensor<4xf32>) -> () loc(#loc12)
  }) {arg_names = ["x"]} : () -> () loc(#loc1)
}) : () -> () loc(#loc)
#loc = loc("locations.tir":0:0)
#loc1 = loc("model.py":1:1)
#loc3 = loc("model.py":3:14)
#loc4 = loc("model.py":3:19)
#loc5 = loc("a \22quoted\22 file\\name.py":3:14)
#loc6 = loc("features.0")
#loc7 = loc(unknown)
#loc8 = loc("locations.tir":8:3)
#loc9 = loc("locations.tir":8:9)
#loc10 = loc(fused[#loc3, #loc4])
#loc11 = loc("features.0"(#loc5))
#loc12 = loc(fused[#loc8, #loc9])
// -----
#loc3 = loc("<stdin>":796:8)
#loc4 = loc("<stdin>":796:38)
#loc5 = loc("<stdin>":796:68)
#loc14 = loc("<stdin>":801:10)
#loc15 = loc("<stdin>":801:21)
"builtin.module"() ({
  "func.func"() <{function_type = (!polyreme.buffer<64xf32>, !polyreme.buffer<64xf32>, i1) -> (), sym_name = "scale"}> ({
  ^bb0(%arg0: !polyreme.buffer<64xf32> loc("<stdin>":796:8), %arg1: !polyreme.buffer<64xf32> loc("<stdin>":796:38), %arg2: i1 loc("<stdin>":796:68)):
    %0 = "polyreme.kernel.size"() {value = 0 : i64} : () -> index loc(#loc33)
    %1 = "polyreme.kernel.size"() {value = 64 : i64} : () -> index loc(#loc34)
    %2 = "polyreme.kernel.constant"() {dtype = f32, value = 0.000000e+00 : f64} : () -> f32 loc(#loc35)
    %3 = "polyreme.kernel.for"(%0, %1, %2) ({
    ^bb0(%arg3: index loc("<stdin>":801:10), %arg4: f32 loc("<stdin>":801:21)):
      %5 = "polyreme.kernel.load"(%arg0, %arg3) {lanes = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 0>} : (!polyreme.buffer<64xf32>, index) -> f32 loc(#loc37)
      %6 = "polyreme.kernel.apply"(%arg4, %5) {fn = "add"} : (f32, f32) -> f32 loc(#loc38)
      "polyreme.kernel.store"(%6, %arg1, %arg3) {operandSegmentSizes = array<i32: 1, 1, 1, 0>, streaming = false} : (f32, !polyreme.buffer<64xf32>, index) -> () loc(#loc39)
      "polyreme.kernel.yield"(%6) : (f32) -> () loc(#loc40)
    }) {operandSegmentSizes = array<i32: 1, 1, 1>, step = 1 : i64} : (index, index, f32) -> f32 loc(#loc36)
    %4 = "polyreme.kernel.if"(%arg2) ({
      "polyreme.kernel.yield"(%3) : (f32) -> () loc(#loc42)
    }, {
      "polyreme.kernel.yield"(%2) : (f32) -> () loc(#loc43)
    }) : (i1) -> f32 loc(#loc41)
    "func.return"() : () -> () loc(#loc44)
  }) {arg_names = ["x", "y", "flag"]} : () -> () loc(#loc32)
}) : () -> () loc(#loc)
#loc = loc("regions.tir":0:0)
#loc1 = loc("regions.tir":3:6)
#loc2 = loc("regions.tir":3:12)
#loc6 = loc("regions.tir":4:9)
#loc7 = loc("regions.tir":4:20)
#loc8 = loc("regions.tir":5:9)
#loc9 = loc("regions.tir":5:20)
#loc10 = loc("regions.tir":6:11)
#loc11 = loc("regions.tir":6:26)
#loc12 = loc("regions.tir":7:10)
#loc13 = loc("regions.tir":7:20)
#loc16 = loc("regions.tir":8:10)
#loc17 = loc("regions.tir":8:21)
#loc18 = loc("regions.tir":9:13)
#loc19 = loc("regions.tir":9:25)
#loc20 = loc("regions.tir":10:5)
#loc21 = loc("regions.tir":10:17)
#loc22 = loc("regions.tir":11:5)
#loc23 = loc("regions.tir":11:17)
#loc24 = loc("regions.tir":13:8)
#loc25 = loc("regions.tir":13:17)
#loc26 = loc("regions.tir":14:5)
#loc27 = loc("regions.tir":14:17)
#loc28 = loc("regions.tir":16:5)
#loc29 = loc("regions.tir":16:17)
#loc30 = loc("regions.tir":18:3)
#loc31 = loc("regions.tir":18:9)
#loc32 = loc(fused[#loc1, #loc2])
#loc33 = loc(fused[#loc6, #loc7])
#loc34 = loc(fused[#loc8, #loc9])
#loc35 = loc(fused[#loc10, #loc11])
#loc36 = loc(fused[#loc12, #loc13])
#loc37 = loc(fused[#loc16, #loc17])
#loc38 = loc(fused[#loc18, #loc19])
#loc39 = loc(fused[#loc20, #loc21])
#loc40 = loc(fused[#loc22, #loc23])
#loc41 = loc(fused[#loc24, #loc25])
#loc42 = loc(fused[#loc26, #loc27])
#loc43 = loc(fused[#loc28, #loc29])
#loc44 = loc(fused[#loc30, #loc31])
// -----
#loc3 = loc("<stdin>":819:8)
#loc4 = loc("<stdin>":819:38)
"builtin.module"() ({
  "func.func"() <{function_type = (!polyreme.buffer<64xf32>, index) -> (), sym_name = "view"}> ({
  ^bb0(%arg0: !polyreme.buffer<64xf32> loc("<stdin>":819:8), %arg1: index loc("<stdin>":819:38)):
    %0 = "polyreme.kernel.view"(%arg0) {operandSegmentSizes = array<i32: 1, 0>, shape = [8]} : (!polyreme.buffer<64xf32>) -> !polyreme.buffer<8xf32> loc(#loc10)
    "func.return"() : () -> () loc(#loc11)
  }) {arg_names = ["x", "i"]} : () -> () loc(#loc9)
}) : () -> () loc(#loc)
#loc = loc("regions.tir":0:0)
#loc1 = loc("regions.tir":2:6)
#loc2 = loc("regions.tir":2:11)
#loc5 = loc("regions.tir":3:8)
#loc6 = loc("regions.tir":3:19)
#loc7 = loc("regions.tir":4:3)
#loc8 = loc("regions.tir":4:9)
#loc9 = loc(fused[#loc1, #loc2])
#loc10 = loc(fused[#loc5, #loc6])
#loc11 = loc(fused[#loc7, #loc8])
// -----
"builtin.module"() ({
  "func.func"() <{function_type = () -> (), sym_name = "numbers"}> ({
    %0 = "polyreme.tensor.full"() {dtype = ui64, shape = [1], value = 18446744073709551615 : ui64} : () -> tensor<1xui64> loc(#loc20)
    %1 = "polyreme.tensor.full"() {dtype = i64, shape = [1], value = -9223372036854775808 : i64} : () -> tensor<1xi64> loc(#loc21)
    %2 = "polyreme.tensor.full"() {dtype = f64, shape = [1], value = 1.000000e-01 : f64} : () -> tensor<1xf64> loc(#loc22)
    %3 = "polyreme.tensor.full"() {dtype = f64, shape = [1], value = 4.940660e-324 : f64} : () -> tensor<1xf64> loc(#loc23)
    %4 = "polyreme.tensor.full"() {dtype = f64, shape = [1], value = -0.000000e+00 : f64} : () -> tensor<1xf64> loc(#loc24)
    %5 = "polyreme.tensor.full"() {dtype = f64, shape = [1], value = 0x419D6F3454000000 : f64} : () -> tensor<1xf64> loc(#loc25)
    %6 = "polyreme.tensor.full"() {dtype = bf16, shape = [1], value = 1.000000e-01 : f64} : () -> tensor<1xbf16> loc(#loc26)
    "func.return"() : () -> () loc(#loc27)
  }) : () -> () loc(#loc19)
}) : () -> () loc(#loc)
#loc = loc("tools.tir":0:0)
#loc1 = loc("tools.tir":3:6)
#loc2 = loc("tools.tir":3:14)
#loc3 = loc("tools.tir":4:8)
#loc4 = loc("tools.tir":4:19)
#loc5 = loc("tools.tir":5:8)
#loc6 = loc("tools.tir":5:19)
#loc7 = loc("tools.tir":6:8)
#loc8 = loc("tools.tir":6:19)
#loc9 = loc("tools.tir":7:8)
#loc10 = loc("tools.tir":7:19)
#loc11 = loc("tools.tir":8:8)
#loc12 = loc("tools.tir":8:19)
#loc13 = loc("tools.tir":9:8)
#loc14 = loc("tools.tir":9:19)
#loc15 = loc("tools.tir":10:8)
#loc16 = loc("tools.tir":10:19)
#loc17 = loc("tools.tir":11:3)
#loc18 = loc("tools.tir":11:9)
#loc19 = loc(fused[#loc1, #loc2])
#loc20 = loc(fused[#loc3, #loc4])
#loc21 = loc(fused[#loc5, #loc6])
#loc22 = loc(fused[#loc7, #loc8])
#loc23 = loc(fused[#loc9, #loc10])
#loc24 = loc(fused[#loc11, #loc12])
#loc25 = loc(fused[#loc13, #loc14])
#loc26 = loc(fused[#loc15, #loc16])
#loc27 = loc(fused[#loc17, #loc18])
// -----
"builtin.module"() ({
  "func.func"() <{function_type = () -> (), sym_name = "elements"}> ({
    %0 = "polyreme.tensor.constant"() {value = dense<[0x4B800000, 1.401300e-45, 3.40282347E+38]> : tensor<3xf32>} : () -> tensor<3xf32> loc(#loc22)
    %1 = "polyreme.tensor.constant"() {value = dense_resource<m62_b> : tensor<2xcomplex<f64>>} : () -> tensor<2xcomplex<f64>> loc(#loc23)
    %2 = "polyreme.tensor.constant"() {value = dense_resource<m62_c> : tensor<2xf32>} : () -> tensor<2xf32> loc(#loc24)
    %3 = "polyreme.tensor.constant"() {value = dense<[-9223372036854775807, 3]> : tensor<2xi64>} : () -> tensor<2xi64> loc(#loc25)
    %4 = "polyreme.tensor.constant"() {value = dense_resource<m62_e> : tensor<3xf16>} : () -> tensor<3xf16> loc(#loc26)
    %5 = "polyreme.tensor.constant"() {value = dense_resource<m62_f> : tensor<2x2xf32>} : () -> tensor<2x2xf32> loc(#loc27)
    %6 = "polyreme.tensor.constant"() {value = dense<1.000000e+00> : tensor<1x1x1x1x1xf64>} : () -> tensor<1x1x1x1x1xf64> loc(#loc28)
    %7 = "polyreme.tensor.constant"() {value = dense<> : tensor<0x3xi1>} : () -> tensor<0x3xi1> loc(#loc29)
    "func.return"() : () -> () loc(#loc30)
  }) : () -> () loc(#loc21)
}) : () -> () loc(#loc)
#loc = loc("tools.tir":0:0)
#loc1 = loc("tools.tir":1:6)
#loc2 = loc("tools.tir":1:15)
#loc3 = loc("tools.tir":2:8)
#loc4 = loc("tools.tir":2:23)
#loc5 = loc("tools.tir":3:8)
#loc6 = loc("tools.tir":3:23)
#loc7 = loc("tools.tir":4:8)
#loc8 = loc("tools.tir":4:23)
#loc9 = loc("tools.tir":5:8)
#loc10 = loc("tools.tir":5:23)
#loc11 = loc("tools.tir":6:8)
#loc12 = loc("tools.tir":6:23)
#loc13 = loc("tools.tir":7:8)
#loc14 = loc("tools.tir":7:23)
#loc15 = loc("tools.tir":8:8)
#loc16 = loc("tools.tir":8:23)
#loc17 = loc("tools.tir":9:8)
#loc18 = loc("tools.tir":9:23)
#loc19 = loc("tools.tir":10:3)
#loc20 = loc("tools.tir":10:9)
#loc21 = loc(fused[#loc1, #loc2])
#loc22 = loc(fused[#loc3, #loc4])
#loc23 = loc(fused[#loc5, #loc6])
#loc24 = loc(fused[#loc7, #loc8])
#loc25 = loc(fused[#loc9, #loc10])
#loc26 = loc(fused[#loc11, #loc12])
#loc27 = loc(fused[#loc13, #loc14])
#loc28 = loc(fused[#loc15, #loc16])
#loc29 = loc(fused[#loc17, #loc18])
#loc30 = loc(fused[#loc19, #loc20])

{-#
  dialect_resources: {
    builtin: {
      m62_b: "0x40000000000000000000F87F000000000000F03F000000000000F0FF0000000000000080",
      m62_c: "0x400000000100807F0200C0FF",
      m62_e: "0x40000000662EFFFB007C",
      m62_f: "0x400000000100C07F0100C07F0100C07F0100C07F"
    }
  }
#-}
// -----
"builtin.module"() ({
  "func.func"() <{function_type = () -> (), sym_name = "resources"}> ({
    %0 = "polyreme.tensor.constant"() {value = dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>} : () -> tensor<2xf32> loc(#loc12)
    %1 = "polyreme.tensor.constant"() {value = dense<[true, false]> : tensor<2xi1>} : () -> tensor<2xi1> loc(#loc13)
    %2 = "polyreme.tensor.constant"() {value = dense<[1065353216, 1073741824]> : tensor<2xi32>} : () -> tensor<2xi32> loc(#loc14)
    "func.return"() : () -> () loc(#loc15)
  }) : () -> () loc(#loc11)
}) : () -> () loc(#loc)
#loc = loc("tools.tir":0:0)
#loc1 = loc("tools.tir":2:6)
#loc2 = loc("tools.tir":2:16)
#loc3 = loc("tools.tir":3:13)
#loc4 = loc("tools.tir":3:28)
#loc5 = loc("tools.tir":4:12)
#loc6 = loc("tools.tir":4:27)
#loc7 = loc("tools.tir":5:12)
#loc8 = loc("tools.tir":5:27)
#loc9 = loc("tools.tir":6:3)
#loc10 = loc("tools.tir":6:9)
#loc11 = loc(fused[#loc1, #loc2])
#loc12 = loc(fused[#loc3, #loc4])
#loc13 = loc(fused[#loc5, #loc6])
#loc14 = loc(fused[#loc7, #loc8])
#loc15 = loc(fused[#loc9, #loc10])
// -----
#loc17 = loc("<stdin>":888:8)
"builtin.module"() ({
  "func.func"() <{function_type = () -> (), sym_name = "conv.1x1-relu"}> ({
    "func.return"() : () -> () loc(#loc21)
  }) : () -> () loc(#loc20)
  "func.func"() <{function_type = () -> (), sym_name = "a \22b\22 \\ \0A\09\00\7F"}> ({
    "polyreme.func.call"() {callee = @"conv.1x1-relu"} : () -> () loc(#loc23)
    "func.return"() : () -> () loc(#loc24)
  }) : () -> () loc(#loc22)
  "func.func"() <{function_type = () -> (), sym_name = "\C3\A9 \C3\A9 \F0\9F\98\80"}> ({
    "func.return"() : () -> () loc(#loc26)
  }) : () -> () loc(#loc25)
  "func.func"() <{function_type = (tensor<4xf32>) -> (), sym_name = "strings"}> ({
  ^bb0(%arg0: tensor<4xf32> loc("<stdin>":888:8)):
    "func.return"() : () -> () loc(#loc28)
  }) {arg_names = ["\C3\A9 \22\F0\9F\98\80\22 \\ \01"]} : () -> () loc(#loc27)
}) : () -> () loc(#loc)
#loc = loc("tools.tir":0:0)
#loc1 = loc("tools.tir":2:6)
#loc2 = loc("tools.tir":2:22)
#loc3 = loc("tools.tir":3:3)
#loc4 = loc("tools.tir":3:9)
#loc5 = loc("tools.tir":5:6)
#loc6 = loc("tools.tir":5:30)
#loc7 = loc("tools.tir":6:3)
#loc8 = loc("tools.tir":6:12)
#loc9 = loc("tools.tir":7:3)
#loc10 = loc("tools.tir":7:9)
#loc11 = loc("tools.tir":9:6)
#loc12 = loc("tools.tir":9:30)
#loc13 = loc("tools.tir":10:3)
#loc14 = loc("tools.tir":10:9)
#loc15 = loc("tools.tir":12:6)
#loc16 = loc("tools.tir":12:14)
#loc18 = loc("tools.tir":13:3)
#loc19 = loc("tools.tir":13:9)
#loc20 = loc(fused[#loc1, #loc2])
#loc21 = loc(fused[#loc3, #loc4])
#loc22 = loc(fused[#loc5, #loc6])
#loc23 = loc(fused[#loc7, #loc8])
#loc24 = loc(fused[#loc9, #loc10])
#loc25 = loc(fused[#loc11, #loc12])
#loc26 = loc(fused[#loc13, #loc14])
#loc27 = loc(fused[#loc15, #loc16])
#loc28 = loc(fused[#loc18, #loc19])
// -----
#loc1 = loc("<stdin>":896:8)
"builtin.module"() <{sym_name = "net"}> ({
  "func.func"() <{function_type = (tensor<313xui64>) -> (tensor<4xf32>, tensor<313xui64>), sym_name = "draw"}> ({
  ^bb0(%arg0: tensor<313xui64> loc("<stdin>":896:8)):
    %0:2 = "polyreme.tensor.random"(%arg0) {dtype = f32, high = 1.000000e+00 : f64, low = 0.000000e+00 : f64, shape = [4]} : (tensor<313xui64>) -> (tensor<4xf32>, tensor<313xui64>) loc(#loc4)
    "func.return"(%0#0, %0#1) : (tensor<4xf32>, tensor<313xui64>) -> () loc(#loc5)
  }) {arg_names = ["seed"]} : () -> () loc(#loc)
}) : () -> () loc(#loc)
#loc = loc(unknown)
#loc2 = loc("m.py":7:1)
#loc3 = loc("m.py":7:9)
#loc4 = loc("layer"(#loc2))
#loc5 = loc(fused[#loc2, #loc3])
// -----
"builtin.module"() ({
^bb0:
}) : () -> () loc(#loc2)
#loc = loc("tools.tir":2:1)
#loc1 = loc("tools.tir":2:7)
#loc2 = loc(fused[#loc, #loc1])
// -----
#loc3 = loc("<stdin>":910:8)
#loc4 = loc("<stdin>":910:27)
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>), sym_name = "names"}> ({
  ^bb0(%arg0: tensor<4xf32> loc("<stdin>":910:8), %arg1: tensor<4xf32> loc("<stdin>":910:27)):
    %0 = "polyreme.tensor.map"(%arg0, %arg1) {fn = "add"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc(#loc14)
    %1 = "polyreme.tensor.map"(%0) {fn = "exp"} : (tensor<4xf32>) -> tensor<4xf32> loc(#loc15)
    %2 = "polyreme.tensor.map"(%1) {fn = "neg"} : (tensor<4xf32>) -> tensor<4xf32> loc(#loc16)
    "func.return"(%1, %2) : (tensor<4xf32>, tensor<4xf32>) -> () loc(#loc17)
  }) {arg_names = ["x", "fc.weight"]} : () -> () loc(#loc13)
}) : () -> () loc(#loc)
#loc = loc("values.tir":0:0)
#loc1 = loc("values.tir":3:6)
#loc2 = loc("values.tir":3:12)
#loc5 = loc("values.tir":4:8)
#loc6 = loc("values.tir":4:18)
#loc7 = loc("values.tir":5:8)
#loc8 = loc("values.tir":5:18)
#loc9 = loc("values.tir":6:9)
#loc10 = loc("values.tir":6:19)
#loc11 = loc("values.tir":7:3)
#loc12 = loc("values.tir":7:9)
#loc13 = loc(fused[#loc1, #loc2])
#loc14 = loc(fused[#loc5, #loc6])
#loc15 = loc(fused[#loc7, #loc8])
#loc16 = loc(fused[#loc9, #loc10])
#loc17 = loc(fused[#loc11, #loc12])
// -----
#loc3 = loc("<stdin>":921:8)
#loc8 = loc("<stdin>":925:8)
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<4xf32>) -> tensor<4xf32>, sym_name = "first"}> ({
  ^bb0(%arg1: tensor<4xf32> loc("<stdin>":921:8)):
    "func.return"(%arg1) : (tensor<4xf32>) -> () loc(#loc12)
  }) {arg_names = ["x"]} : () -> () loc(#loc11)
  "func.func"() <{function_type = (tensor<4xf32>) -> tensor<4xf32>, sym_name = "second"}> ({
  ^bb0(%arg0: tensor<4xf32> loc("<stdin>":925:8)):
    "func.return"(%arg0) : (tensor<4xf32>) -> () loc(#loc14)
  }) {arg_names = ["x"]} : () -> () loc(#loc13)
}) : () -> () loc(#loc)
#loc = loc("values.tir":0:0)
#loc1 = loc("values.tir":2:6)
#loc2 = loc("values.tir":2:12)
#loc4 = loc("values.tir":3:3)
#loc5 = loc("values.tir":3:9)
#loc6 = loc("values.tir":5:6)
#loc7 = loc("values.tir":5:13)
#loc9 = loc("values.tir":6:3)
#loc10 = loc("values.tir":6:9)
#loc11 = loc(fused[#loc1, #loc2])
#loc12 = loc(fused[#loc4, #loc5])
#loc13 = loc(fused[#loc6, #loc7])
#loc14 = loc(fused[#loc9, #loc10])
// -----
#loc3 = loc("<stdin>":933:8)
#loc4 = loc("<stdin>":933:46)
#loc5 = loc("<stdin>":933:75)
#loc6 = loc("<stdin>":933:98)
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x1x28x28xf32, ["N"]>, tensor<10x784xf32>, tensor<10xf32>, tensor<f32>) -> tensor<10xf32>, sym_name = "main"}> ({
  ^bb0(%arg0: tensor<?x1x28x28xf32, ["N"]> loc("<stdin>":933:8), %arg1: tensor<10x784xf32> loc("<stdin>":933:46), %arg2: tensor<10xf32> loc("<stdin>":933:75), %arg3: tensor<f32> loc("<stdin>":933:98)):
    "func.return"(%arg2) : (tensor<10xf32>) -> () loc(#loc10)
  }) {arg_names = ["image", "weight", "bias", "scale"], arg_roles = ["input", "param", "param", "input"], result_names = ["same"]} : () -> () loc(#loc9)
}) : () -> () loc(#loc)
#loc = loc("values.tir":0:0)
#loc1 = loc("values.tir":2:6)
#loc2 = loc("values.tir":2:11)
#loc7 = loc("values.tir":6:3)
#loc8 = loc("values.tir":6:9)
#loc9 = loc(fused[#loc1, #loc2])
#loc10 = loc(fused[#loc7, #loc8])
// -----
#loc4 = loc("<stdin>":941:8)
"builtin.module"() <{sym_name = "net"}> ({
  "func.func"() <{function_type = (tensor<313xui64>) -> (tensor<4xf32>, tensor<313xui64>), sym_name = "draw"}> ({
  ^bb0(%arg0: tensor<313xui64> loc("<stdin>":941:8)):
    %0:2 = "polyreme.tensor.random"(%arg0) {dtype = f32, high = 1.000000e+00 : f64, low = 0.000000e+00 : f64, shape = [4]} : (tensor<313xui64>) -> (tensor<4xf32>, tensor<313xui64>) loc(#loc11)
    "func.return"(%0#0, %0#1) : (tensor<4xf32>, tensor<313xui64>) -> () loc(#loc12)
  }) {arg_names = ["s"]} : () -> () loc(#loc10)
}) : () -> () loc(#loc9)
#loc = loc("values.tir":2:8)
#loc1 = loc("values.tir":2:12)
#loc2 = loc("values.tir":3:8)
#loc3 = loc("values.tir":3:13)
#loc5 = loc("values.tir":4:15)
#loc6 = loc("values.tir":4:28)
#loc7 = loc("values.tir":5:5)
#loc8 = loc("values.tir":5:11)
#loc9 = loc(fused[#loc, #loc1])
#loc10 = loc(fused[#loc2, #loc3])
#loc11 = loc(fused[#loc5, #loc6])
#loc12 = loc(fused[#loc7, #loc8])
// -----
#loc3 = loc("<stdin>":950:8)
#loc10 = loc("<stdin>":955:8)
#loc11 = loc("<stdin>":955:36)
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["M"]>) -> tensor<?x4xf32, ["2*M"]>, sym_name = "double"}> ({
  ^bb0(%arg2: tensor<?x4xf32, ["M"]> loc("<stdin>":950:8)):
    %2 = "polyreme.tensor.concat"(%arg2, %arg2) {axis = 0 : i64} : (tensor<?x4xf32, ["M"]>, tensor<?x4xf32, ["M"]>) -> tensor<?x4xf32, ["2*M"]> loc(#loc19)
    "func.return"(%2) : (tensor<?x4xf32, ["2*M"]>) -> () loc(#loc20)
  }) {arg_names = ["x"]} : () -> () loc(#loc18)
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>, tensor<3x4xf32>) -> (tensor<?x4xf32, ["2*N"]>, tensor<6x4xf32>), sym_name = "main"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]> loc("<stdin>":955:8), %arg1: tensor<3x4xf32> loc("<stdin>":955:36)):
    %0 = "polyreme.func.call"(%arg0) {callee = @double} : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["2*N"]> loc(#loc22)
    %1 = "polyreme.func.call"(%arg1) {callee = @double} : (tensor<3x4xf32>) -> tensor<6x4xf32> loc(#loc23)
    "func.return"(%0, %1) : (tensor<?x4xf32, ["2*N"]>, tensor<6x4xf32>) -> () loc(#loc24)
  }) {arg_names = ["x", "z"]} : () -> () loc(#loc21)
}) : () -> () loc(#loc)
#loc = loc("calls.tir":0:0)
#loc1 = loc("calls.tir":3:6)
#loc2 = loc("calls.tir":3:13)
#loc4 = loc("calls.tir":4:8)
#loc5 = loc("calls.tir":4:21)
#loc6 = loc("calls.tir":5:3)
#loc7 = loc("calls.tir":5:9)
#loc8 = loc("calls.tir":7:6)
#loc9 = loc("calls.tir":7:11)
#loc12 = loc("calls.tir":8:8)
#loc13 = loc("calls.tir":8:17)
#loc14 = loc("calls.tir":9:8)
#loc15 = loc("calls.tir":9:17)
#loc16 = loc("calls.tir":10:3)
#loc17 = loc("calls.tir":10:9)
#loc18 = loc(fused[#loc1, #loc2])
#loc19 = loc(fused[#loc4, #loc5])
#loc20 = loc(fused[#loc6, #loc7])
#loc21 = loc(fused[#loc8, #loc9])
#loc22 = loc(fused[#loc12, #loc13])
#loc23 = loc(fused[#loc14, #loc15])
#loc24 = loc(fused[#loc16, #loc17])
// -----
#loc3 = loc("<stdin>":965:8)
#loc10 = loc("<stdin>":970:8)
"builtin.module"() ({
  "func.func"() <{function_type = (!polyreme.buffer<?xf32, ["4*N"]>) -> (), sym_name = "clear"}> ({
  ^bb0(%arg1: !polyreme.buffer<?xf32, ["4*N"]> loc("<stdin>":965:8)):
    %0 = "polyreme.kernel.size"() {value = #polyreme.size<"4*N">} : () -> index loc(#loc14)
    "func.return"() : () -> () loc(#loc15)
  }) {arg_names = ["x"]} : () -> () loc(#loc13)
  "func.func"() <{function_type = (!polyreme.buffer<?x4xf32, ["N"]>) -> (), sym_name = "main"}> ({
  ^bb0(%arg0: !polyreme.buffer<?x4xf32, ["N"]> loc("<stdin>":970:8)):
    "func.return"() : () -> () loc(#loc17)
  }) {arg_names = ["x"]} : () -> () loc(#loc16)
}) : () -> () loc(#loc)
#loc = loc("sizes.tir":0:0)
#loc1 = loc("sizes.tir":2:6)
#loc2 = loc("sizes.tir":2:12)
#loc4 = loc("sizes.tir":3:8)
#loc5 = loc("sizes.tir":3:19)
#loc6 = loc("sizes.tir":4:3)
#loc7 = loc("sizes.tir":4:9)
#loc8 = loc("sizes.tir":6:6)
#loc9 = loc("sizes.tir":6:11)
#loc11 = loc("sizes.tir":7:3)
#loc12 = loc("sizes.tir":7:9)
#loc13 = loc(fused[#loc1, #loc2])
#loc14 = loc(fused[#loc4, #loc5])
#loc15 = loc(fused[#loc6, #loc7])
#loc16 = loc(fused[#loc8, #loc9])
#loc17 = loc(fused[#loc11, #loc12])
// -----
#loc3 = loc("<stdin>":978:8)
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>, sym_name = "valid"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]> loc("<stdin>":978:8)):
    %0 = "polyreme.tensor.map"(%arg0) {fn = "exp"} : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]> loc(#loc9)
    "func.return"(%0) : (tensor<?x4xf32, ["N"]>) -> () loc(#loc10)
  }) {arg_names = ["x"]} : () -> () loc(#loc8)
}) : () -> () loc(#loc)
#loc = loc("values.tir":0:0)
#loc1 = loc("values.tir":2:6)
#loc2 = loc("values.tir":2:12)
#loc4 = loc("values.tir":3:8)
#loc5 = loc("values.tir":3:18)
#loc6 = loc("values.tir":4:3)
#loc7 = loc("values.tir":4:9)
#loc8 = loc(fused[#loc1, #loc2])
#loc9 = loc(fused[#loc4, #loc5])
#loc10 = loc(fused[#loc6, #loc7])
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<4xf32>) -> tensor<4xf32>, sym_name = "main"}> ({
  ^bb0(%arg0: tensor<4xf32>):
    "func.return"(%arg0) : (tensor<4xf32>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<4xf32>) -> tensor<2x4xf32>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<4xf32>):
    %0 = "polyreme.dist.all_gather"(%arg0) {ranks = 2 : i64} : (tensor<4xf32>) -> tensor<2x4xf32>
    "func.return"(%0) : (tensor<2x4xf32>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<4x4xf32>) -> tensor<4x4xf32>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<4x4xf32>):
    %0 = "polyreme.dist.all_reduce"(%arg0) {reduce = "mean"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    "func.return"(%0) : (tensor<4x4xf32>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<2x2xf32>) -> tensor<2x2xf32>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<2x2xf32>):
    %0 = "polyreme.dist.all_reduce_start"(%arg0) {bucket = 0 : i64, reduce = "mean"} : (tensor<2x2xf32>) -> !polyreme.pending<2x2xf32>
    %1 = "polyreme.dist.wait"(%0) : (!polyreme.pending<2x2xf32>) -> tensor<2x2xf32>
    "func.return"(%1) : (tensor<2x2xf32>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<2x2xf32>) -> tensor<2x2xf32>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<2x2xf32>):
    %0 = "polyreme.dist.broadcast"(%arg0) {root = 0 : i64} : (tensor<2x2xf32>) -> tensor<2x2xf32>
    "func.return"(%0) : (tensor<2x2xf32>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<4x2xf32>) -> tensor<2x2xf32>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<4x2xf32>):
    %0 = "polyreme.dist.reduce_scatter"(%arg0) {ranks = 2 : i64, reduce = "sum"} : (tensor<4x2xf32>) -> tensor<2x2xf32>
    "func.return"(%0) : (tensor<2x2xf32>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<2x2xf32>) -> tensor<2x2xf32>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<2x2xf32>):
    %0 = "polyreme.dist.all_reduce_start"(%arg0) {reduce = "sum"} : (tensor<2x2xf32>) -> !polyreme.pending<2x2xf32>
    %1 = "polyreme.dist.wait"(%0) : (!polyreme.pending<2x2xf32>) -> tensor<2x2xf32>
    "func.return"(%1) : (tensor<2x2xf32>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<4xf32>) -> tensor<4xf32>, sym_name = "same"}> ({
  ^bb0(%arg1: tensor<4xf32>):
    "func.return"(%arg1) : (tensor<4xf32>) -> ()
  }) {arg_names = ["x"]} : () -> ()
  "func.func"() <{function_type = (tensor<4xf32>) -> tensor<4xf32>, sym_name = "main"}> ({
  ^bb0(%arg0: tensor<4xf32>):
    %0 = "polyreme.func.call"(%arg0) {callee = @same} : (tensor<4xf32>) -> tensor<4xf32>
    "func.return"(%0) : (tensor<4xf32>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<4xf32>) -> tensor<4xf32>, sym_name = "twice"}> ({
  ^bb0(%arg0: tensor<4xf32>):
    %0 = "polyreme.nn.add"(%arg0, %arg0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    "func.return"(%0) : (tensor<4xf32>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<4xf32>, tensor<2xi64>) -> (tensor<2xi64>, tensor<4xf32>), sym_name = "swap"}> ({
  ^bb0(%arg0: tensor<4xf32>, %arg1: tensor<2xi64>):
    "func.return"(%arg1, %arg0) : (tensor<2xi64>, tensor<4xf32>) -> ()
  }) {arg_names = ["x", "y"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x3xf32, ["N"]>, tensor<?xf32, ["K"]>) -> tensor<?x3xf32, ["K"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x3xf32, ["N"]>, %arg1: tensor<?xf32, ["K"]>):
    %0 = "polyreme.host.call"(%arg0) {function = "drop_empty_rows", id = 0 : i64} : (tensor<?x3xf32, ["N"]>) -> tensor<?x3xf32, ["K"]>
    "func.return"(%0) : (tensor<?x3xf32, ["K"]>) -> ()
  }) {arg_names = ["x", "sizes"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<313xui64>) -> (tensor<4xi64>, tensor<313xui64>), sym_name = "example"}> ({
  ^bb0(%arg0: tensor<313xui64>):
    %0:2 = "polyreme.host.integers"(%arg0) {dtype = i64, high = 10 : i64, low = 0 : i64, shape = [4]} : (tensor<313xui64>) -> (tensor<4xi64>, tensor<313xui64>)
    "func.return"(%0#0, %0#1) : (tensor<4xi64>, tensor<313xui64>) -> ()
  }) {arg_names = ["s"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<4x3xi1>) -> tensor<?x2xi64, ["K"]>, sym_name = "main"}> ({
  ^bb0(%arg0: tensor<4x3xi1>):
    %0 = "polyreme.host.nonzero"(%arg0) {count = #polyreme.size<"K">} : (tensor<4x3xi1>) -> tensor<?x2xi64, ["K"]>
    "func.return"(%0) : (tensor<?x2xi64, ["K"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<313xui64>) -> (tensor<4xf32>, tensor<313xui64>), sym_name = "example"}> ({
  ^bb0(%arg0: tensor<313xui64>):
    %0:2 = "polyreme.host.normal"(%arg0) {dtype = f32, mean = 0.000000e+00 : f64, shape = [4], std = 1.000000e+00 : f64} : (tensor<313xui64>) -> (tensor<4xf32>, tensor<313xui64>)
    "func.return"(%0#0, %0#1) : (tensor<4xf32>, tensor<313xui64>) -> ()
  }) {arg_names = ["s"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<313xui64>) -> (tensor<5xi64>, tensor<313xui64>), sym_name = "example"}> ({
  ^bb0(%arg0: tensor<313xui64>):
    %0:2 = "polyreme.host.permutation"(%arg0) {count = 5 : i64} : (tensor<313xui64>) -> (tensor<5xi64>, tensor<313xui64>)
    "func.return"(%0#0, %0#1) : (tensor<5xi64>, tensor<313xui64>) -> ()
  }) {arg_names = ["s"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x3x4xf32, ["N"]>) -> tensor<?x3xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x3x4xf32, ["N"]>):
    %0 = "polyreme.host.singular_values"(%arg0) : (tensor<?x3x4xf32, ["N"]>) -> tensor<?x3xf32, ["N"]>
    "func.return"(%0) : (tensor<?x3xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x3x4xf32, ["N"]>) -> (tensor<?x3x3xf32, ["N"]>, tensor<?x3x4xf32, ["N"]>), sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x3x4xf32, ["N"]>):
    %0:2 = "polyreme.host.singular_vectors"(%arg0) : (tensor<?x3x4xf32, ["N"]>) -> (tensor<?x3x3xf32, ["N"]>, tensor<?x3x4xf32, ["N"]>)
    "func.return"(%0#0, %0#1) : (tensor<?x3x3xf32, ["N"]>, tensor<?x3x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = () -> !polyreme.buffer<8x128xf32>, sym_name = "example"}> ({
    %0 = "polyreme.kernel.alloc"() {dtype = f32, of_thread = 0 : i64, offset = 4096 : i64, shape = [8, 128], space = "arena"} : () -> !polyreme.buffer<8x128xf32>
    "func.return"(%0) : (!polyreme.buffer<8x128xf32>) -> ()
  }) : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (vector<16xf32>, vector<16xf32>) -> (vector<16xf32>, vector<16xf16>), sym_name = "example"}> ({
  ^bb0(%arg0: vector<16xf32>, %arg1: vector<16xf32>):
    %0 = "polyreme.kernel.apply"(%arg0, %arg1) {fn = "add"} : (vector<16xf32>, vector<16xf32>) -> vector<16xf32>
    %1 = "polyreme.kernel.apply"(%arg0) {dtype = f16, fn = "cast"} : (vector<16xf32>) -> vector<16xf16>
    "func.return"(%0, %1) : (vector<16xf32>, vector<16xf16>) -> ()
  }) {arg_names = ["a", "b"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (f32, !polyreme.buffer<64xf32>, index) -> (), sym_name = "example"}> ({
  ^bb0(%arg0: f32, %arg1: !polyreme.buffer<64xf32>, %arg2: index):
    "polyreme.kernel.atomic"(%arg0, %arg1, %arg2) {fn = "add", operandSegmentSizes = array<i32: 1, 1, 1, 0>} : (f32, !polyreme.buffer<64xf32>, index) -> ()
    "func.return"() : () -> ()
  }) {arg_names = ["v", "y", "i"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = () -> (), sym_name = "waiting"}> ({
    "polyreme.kernel.barrier"() : () -> ()
    "func.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = () -> index, sym_name = "example"}> ({
    %0 = "polyreme.kernel.block_count"() {axis = 0 : i64} : () -> index
    "func.return"(%0) : (index) -> ()
  }) : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = () -> index, sym_name = "example"}> ({
    %0 = "polyreme.kernel.block_id"() {axis = 1 : i64} : () -> index
    "func.return"(%0) : (index) -> ()
  }) : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (f32) -> vector<16xf32>, sym_name = "example"}> ({
  ^bb0(%arg0: f32):
    %0 = "polyreme.kernel.broadcast"(%arg0) {lanes = 16 : i64} : (f32) -> vector<16xf32>
    "func.return"(%0) : (vector<16xf32>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (!polyreme.buffer<8xf32>, index) -> (), sym_name = "nothing"}> ({
  ^bb0(%arg1: !polyreme.buffer<8xf32>, %arg2: index):
    "func.return"() : () -> ()
  }) {arg_names = ["x", "n"]} : () -> ()
  "func.func"() <{function_type = (!polyreme.buffer<8xf32>) -> (), sym_name = "main"}> ({
  ^bb0(%arg0: !polyreme.buffer<8xf32>):
    %0 = "polyreme.kernel.size"() {value = 8 : i64} : () -> index
    "polyreme.kernel.call"(%arg0, %0) {callee = @nothing} : (!polyreme.buffer<8xf32>, index) -> ()
    "func.return"() : () -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (!polyreme.buffer<1xi1>) -> (), sym_name = "back"}> ({
  ^bb0(%arg0: !polyreme.buffer<1xi1>):
    %0 = "polyreme.kernel.clock"() : () -> i64
    %1 = "polyreme.kernel.clock"() : () -> i64
    %2 = "polyreme.kernel.apply"(%1, %0) {fn = "lt"} : (i64, i64) -> i1
    %3 = "polyreme.kernel.constant"() {dtype = index, value = 0 : i64} : () -> index
    "polyreme.kernel.store"(%2, %arg0, %3) {operandSegmentSizes = array<i32: 1, 1, 1, 0>, streaming = false} : (i1, !polyreme.buffer<1xi1>, index) -> ()
    "func.return"() : () -> ()
  }) {arg_names = ["answer"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = () -> f32, sym_name = "example"}> ({
    %0 = "polyreme.kernel.constant"() {dtype = f32, value = 0.000000e+00 : f64} : () -> f32
    "func.return"(%0) : (f32) -> ()
  }) : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (!polyreme.buffer<64xf32>, index, !polyreme.buffer<32xf32>, index) -> (), sym_name = "example"}> ({
  ^bb0(%arg0: !polyreme.buffer<64xf32>, %arg1: index, %arg2: !polyreme.buffer<32xf32>, %arg3: index):
    "polyreme.kernel.copy_async"(%arg0, %arg1, %arg2, %arg3) {lanes = 4 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0>} : (!polyreme.buffer<64xf32>, index, !polyreme.buffer<32xf32>, index) -> ()
    "func.return"() : () -> ()
  }) {arg_names = ["x", "i", "tile", "j"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = () -> (), sym_name = "waiting"}> ({
    "polyreme.kernel.copy_commit"() : () -> ()
    "func.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = () -> (), sym_name = "waiting"}> ({
    "polyreme.kernel.copy_wait"() {pending = 1 : i64} : () -> ()
    "func.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = () -> !polyreme.buffer<2xf32>, sym_name = "example"}> ({
    %0 = "polyreme.kernel.data"() {value = dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>} : () -> !polyreme.buffer<2xf32>
    "func.return"(%0) : (!polyreme.buffer<2xf32>) -> ()
  }) : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (vector<16xi32>, vector<16xi32>, vector<16xi32>) -> vector<16xi32>, sym_name = "example"}> ({
  ^bb0(%arg0: vector<16xi32>, %arg1: vector<16xi32>, %arg2: vector<16xi32>):
    %0 = "polyreme.kernel.dot4"(%arg0, %arg1, %arg2) : (vector<16xi32>, vector<16xi32>, vector<16xi32>) -> vector<16xi32>
    "func.return"(%0) : (vector<16xi32>) -> ()
  }) {arg_names = ["a", "b", "acc"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (!polyreme.buffer<256xi32>, index, !polyreme.buffer<1024xi32>, index, !polyreme.buffer<64xi32>, index) -> (), sym_name = "example"}> ({
  ^bb0(%arg0: !polyreme.buffer<256xi32>, %arg1: index, %arg2: !polyreme.buffer<1024xi32>, %arg3: index, %arg4: !polyreme.buffer<64xi32>, %arg5: index):
    "polyreme.kernel.dot_block"(%arg0, %arg1, %arg2, %arg3, %arg4, %arg5) {columns = 16 : i64, counts = [3], lines = 1 : i64, moves_a = [16], moves_b = [256], operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1>, places = [0], row = 48 : i64, rows = 4 : i64, starts = [0], width = 16 : i64} : (!polyreme.buffer<256xi32>, index, !polyreme.buffer<1024xi32>, index, !polyreme.buffer<64xi32>, index) -> ()
    "func.return"() : () -> ()
  }) {arg_names = ["a", "i", "b", "j", "sums", "next"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (vector<16xf32>) -> f32, sym_name = "example"}> ({
  ^bb0(%arg0: vector<16xf32>):
    %0 = "polyreme.kernel.extract"(%arg0) {lane = 3 : i64} : (vector<16xf32>) -> f32
    "func.return"(%0) : (f32) -> ()
  }) {arg_names = ["v"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (i64, !polyreme.buffer<64xi64>, index) -> i64, sym_name = "example"}> ({
  ^bb0(%arg0: i64, %arg1: !polyreme.buffer<64xi64>, %arg2: index):
    %0 = "polyreme.kernel.fetch_add"(%arg0, %arg1, %arg2) : (i64, !polyreme.buffer<64xi64>, index) -> i64
    "func.return"(%0) : (i64) -> ()
  }) {arg_names = ["value", "taken", "i"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (vector<16xf32>, vector<16xf32>, vector<16xf32>) -> vector<16xf32>, sym_name = "example"}> ({
  ^bb0(%arg0: vector<16xf32>, %arg1: vector<16xf32>, %arg2: vector<16xf32>):
    %0 = "polyreme.kernel.fma"(%arg0, %arg1, %arg2) : (vector<16xf32>, vector<16xf32>, vector<16xf32>) -> vector<16xf32>
    "func.return"(%0) : (vector<16xf32>) -> ()
  }) {arg_names = ["a", "b", "acc"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (index, index, !polyreme.buffer<64xf32>, vector<16xf32>) -> vector<16xf32>, sym_name = "example"}> ({
  ^bb0(%arg0: index, %arg1: index, %arg2: !polyreme.buffer<64xf32>, %arg3: vector<16xf32>):
    %0 = "polyreme.kernel.for"(%arg0, %arg1, %arg3) ({
    ^bb0(%arg4: index, %arg5: vector<16xf32>):
      %1 = "polyreme.kernel.load"(%arg2, %arg4) {lanes = 16 : i64, operandSegmentSizes = array<i32: 1, 1, 0>} : (!polyreme.buffer<64xf32>, index) -> vector<16xf32>
      %2 = "polyreme.kernel.apply"(%arg5, %1) {fn = "add"} : (vector<16xf32>, vector<16xf32>) -> vector<16xf32>
      "polyreme.kernel.yield"(%2) : (vector<16xf32>) -> ()
    }) {operandSegmentSizes = array<i32: 1, 1, 1>, step = 16 : i64} : (index, index, vector<16xf32>) -> vector<16xf32>
    "func.return"(%0) : (vector<16xf32>) -> ()
  }) {arg_names = ["lo", "hi", "buffer", "zero"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (!polyreme.buffer<64xf32>, vector<16xindex>) -> vector<16xf32>, sym_name = "example"}> ({
  ^bb0(%arg0: !polyreme.buffer<64xf32>, %arg1: vector<16xindex>):
    %0 = "polyreme.kernel.gather"(%arg0, %arg1) {operandSegmentSizes = array<i32: 1, 1, 0>} : (!polyreme.buffer<64xf32>, vector<16xindex>) -> vector<16xf32>
    "func.return"(%0) : (vector<16xf32>) -> ()
  }) {arg_names = ["x", "positions"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (i1, f32, f32) -> f32, sym_name = "example"}> ({
  ^bb0(%arg0: i1, %arg1: f32, %arg2: f32):
    %0 = "polyreme.kernel.if"(%arg0) ({
      "polyreme.kernel.yield"(%arg1) : (f32) -> ()
    }, {
      "polyreme.kernel.yield"(%arg2) : (f32) -> ()
    }) : (i1) -> f32
    "func.return"(%0) : (f32) -> ()
  }) {arg_names = ["condition", "a", "b"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (f32, vector<16xf32>) -> vector<16xf32>, sym_name = "example"}> ({
  ^bb0(%arg0: f32, %arg1: vector<16xf32>):
    %0 = "polyreme.kernel.insert"(%arg1, %arg0) {lane = 3 : i64} : (vector<16xf32>, f32) -> vector<16xf32>
    "func.return"(%0) : (vector<16xf32>) -> ()
  }) {arg_names = ["s", "v"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = () -> vector<16xindex>, sym_name = "example"}> ({
    %0 = "polyreme.kernel.iota"() {lanes = 16 : i64} : () -> vector<16xindex>
    "func.return"(%0) : (vector<16xindex>) -> ()
  }) : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (index) -> vector<16xi1>, sym_name = "example"}> ({
  ^bb0(%arg0: index):
    %0 = "polyreme.kernel.lane_mask"(%arg0) {lanes = 16 : i64} : (index) -> vector<16xi1>
    "func.return"(%0) : (vector<16xi1>) -> ()
  }) {arg_names = ["left"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (!polyreme.buffer<?xf32, ["N"]>, index) -> (), sym_name = "fill"}> ({
  ^bb0(%arg1: !polyreme.buffer<?xf32, ["N"]>, %arg2: index):
    "func.return"() : () -> ()
  }) {arg_names = ["x", "n"]} : () -> ()
  "func.func"() <{function_type = (!polyreme.buffer<?xf32, ["N"]>) -> (), sym_name = "main"}> ({
  ^bb0(%arg0: !polyreme.buffer<?xf32, ["N"]>):
    %0 = "polyreme.kernel.size"() {value = #polyreme.size<"N">} : () -> index
    "polyreme.kernel.launch"(%arg0, %0) {block = [128], callee = @fill, grid = [#polyreme.size<"floordiv(N+127, 128)">]} : (!polyreme.buffer<?xf32, ["N"]>, index) -> ()
    "func.return"() : () -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (!polyreme.buffer<64xf32>, index, vector<16xi1>) -> (vector<16xf32>, vector<16xf32>), sym_name = "example"}> ({
  ^bb0(%arg0: !polyreme.buffer<64xf32>, %arg1: index, %arg2: vector<16xi1>):
    %0 = "polyreme.kernel.load"(%arg0, %arg1) {lanes = 16 : i64, operandSegmentSizes = array<i32: 1, 1, 0>} : (!polyreme.buffer<64xf32>, index) -> vector<16xf32>
    %1 = "polyreme.kernel.load"(%arg0, %arg1, %arg2) {lanes = 16 : i64, operandSegmentSizes = array<i32: 1, 1, 1>} : (!polyreme.buffer<64xf32>, index, vector<16xi1>) -> vector<16xf32>
    "func.return"(%0, %1) : (vector<16xf32>, vector<16xf32>) -> ()
  }) {arg_names = ["x", "i", "mask"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (!polyreme.buffer<16x16xbf16>, index) -> vector<8xbf16>, sym_name = "example"}> ({
  ^bb0(%arg0: !polyreme.buffer<16x16xbf16>, %arg1: index):
    %0 = "polyreme.kernel.load_matrix"(%arg0, %arg1) {count = 4 : i64, transpose = false} : (!polyreme.buffer<16x16xbf16>, index) -> vector<8xbf16>
    "func.return"(%0) : (vector<8xbf16>) -> ()
  }) {arg_names = ["tile", "i"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (vector<8xbf16>, vector<4xbf16>, vector<4xf32>) -> vector<4xf32>, sym_name = "example"}> ({
  ^bb0(%arg0: vector<8xbf16>, %arg1: vector<4xbf16>, %arg2: vector<4xf32>):
    %0 = "polyreme.kernel.mma"(%arg0, %arg1, %arg2) : (vector<8xbf16>, vector<4xbf16>, vector<4xf32>) -> vector<4xf32>
    "func.return"(%0) : (vector<4xf32>) -> ()
  }) {arg_names = ["a", "b", "c"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (index) -> (), sym_name = "example"}> ({
  ^bb0(%arg0: index):
    "polyreme.kernel.parallel"(%arg0) ({
    ^bb0(%arg1: index):
      "polyreme.kernel.yield"() : () -> ()
    }) {grain = 4 : i64} : (index) -> ()
    "func.return"() : () -> ()
  }) {arg_names = ["rows"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (!polyreme.buffer<64xf32>, index) -> (), sym_name = "example"}> ({
  ^bb0(%arg0: !polyreme.buffer<64xf32>, %arg1: index):
    "polyreme.kernel.prefetch"(%arg0, %arg1) {locality = 2 : i64, write = false} : (!polyreme.buffer<64xf32>, index) -> ()
    "func.return"() : () -> ()
  }) {arg_names = ["x", "i"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (vector<16xf32>) -> f32, sym_name = "example"}> ({
  ^bb0(%arg0: vector<16xf32>):
    %0 = "polyreme.kernel.reduce"(%arg0) {fn = "add"} : (vector<16xf32>) -> f32
    "func.return"(%0) : (f32) -> ()
  }) {arg_names = ["v"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (vector<16xf32>) -> vector<64xui8>, sym_name = "example"}> ({
  ^bb0(%arg0: vector<16xf32>):
    %0 = "polyreme.kernel.reinterpret"(%arg0) {dtype = ui8} : (vector<16xf32>) -> vector<64xui8>
    "func.return"(%0) : (vector<64xui8>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (f32) -> f32, sym_name = "example"}> ({
  ^bb0(%arg0: f32):
    %0 = "polyreme.kernel.round_tf32"(%arg0) : (f32) -> f32
    "func.return"(%0) : (f32) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (vector<16xf32>, !polyreme.buffer<64xf32>, vector<16xindex>, vector<16xi1>) -> (), sym_name = "example"}> ({
  ^bb0(%arg0: vector<16xf32>, %arg1: !polyreme.buffer<64xf32>, %arg2: vector<16xindex>, %arg3: vector<16xi1>):
    "polyreme.kernel.scatter"(%arg0, %arg1, %arg2, %arg3) {operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (vector<16xf32>, !polyreme.buffer<64xf32>, vector<16xindex>, vector<16xi1>) -> ()
    "func.return"() : () -> ()
  }) {arg_names = ["v", "y", "positions", "mask"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (vector<4xf32>, vector<4xf32>) -> vector<4xf32>, sym_name = "example"}> ({
  ^bb0(%arg0: vector<4xf32>, %arg1: vector<4xf32>):
    %0 = "polyreme.kernel.shuffle"(%arg0, %arg1) {lanes = [0, 2, 4, 6]} : (vector<4xf32>, vector<4xf32>) -> vector<4xf32>
    "func.return"(%0) : (vector<4xf32>) -> ()
  }) {arg_names = ["a", "b"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?xf32, ["N"]>) -> index, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?xf32, ["N"]>):
    %0 = "polyreme.kernel.size"() {value = #polyreme.size<"4*N+1">} : () -> index
    "func.return"(%0) : (index) -> ()
  }) {arg_names = ["sizes"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (vector<16xf32>, !polyreme.buffer<64xf32>, index, vector<16xi1>) -> (), sym_name = "example"}> ({
  ^bb0(%arg0: vector<16xf32>, %arg1: !polyreme.buffer<64xf32>, %arg2: index, %arg3: vector<16xi1>):
    "polyreme.kernel.store"(%arg0, %arg1, %arg2) {operandSegmentSizes = array<i32: 1, 1, 1, 0>, streaming = false} : (vector<16xf32>, !polyreme.buffer<64xf32>, index) -> ()
    "polyreme.kernel.store"(%arg0, %arg1, %arg2, %arg3) {operandSegmentSizes = array<i32: 1, 1, 1, 1>, streaming = false} : (vector<16xf32>, !polyreme.buffer<64xf32>, index, vector<16xi1>) -> ()
    "func.return"() : () -> ()
  }) {arg_names = ["v", "y", "i", "mask"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = () -> index, sym_name = "example"}> ({
    %0 = "polyreme.kernel.thread_count"() {axis = 0 : i64} : () -> index
    "func.return"(%0) : (index) -> ()
  }) : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = () -> index, sym_name = "example"}> ({
    %0 = "polyreme.kernel.thread_id"() {axis = 0 : i64} : () -> index
    "func.return"(%0) : (index) -> ()
  }) : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = () -> index, sym_name = "example"}> ({
    %0 = "polyreme.kernel.threads"() : () -> index
    "func.return"(%0) : (index) -> ()
  }) : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (!polyreme.buffer<64xf32>, index) -> index, sym_name = "example"}> ({
  ^bb0(%arg0: !polyreme.buffer<64xf32>, %arg1: index):
    %0 = "polyreme.kernel.until_aligned"(%arg0, %arg1) {bytes = 64 : i64} : (!polyreme.buffer<64xf32>, index) -> index
    "func.return"(%0) : (index) -> ()
  }) {arg_names = ["y", "i"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (!polyreme.buffer<8x16xf32>, index) -> !polyreme.buffer<16xf32>, sym_name = "example"}> ({
  ^bb0(%arg0: !polyreme.buffer<8x16xf32>, %arg1: index):
    %0 = "polyreme.kernel.view"(%arg0, %arg1) {operandSegmentSizes = array<i32: 1, 1>, shape = [16]} : (!polyreme.buffer<8x16xf32>, index) -> !polyreme.buffer<16xf32>
    "func.return"(%0) : (!polyreme.buffer<16xf32>) -> ()
  }) {arg_names = ["x", "start"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (f32) -> f32, sym_name = "example"}> ({
  ^bb0(%arg0: f32):
    %0 = "polyreme.kernel.warp_shuffle"(%arg0) {by = 16 : i64, mode = "xor"} : (f32) -> f32
    "func.return"(%0) : (f32) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (i1, f32, f32) -> f32, sym_name = "example"}> ({
  ^bb0(%arg0: i1, %arg1: f32, %arg2: f32):
    %0 = "polyreme.kernel.if"(%arg0) ({
      "polyreme.kernel.yield"(%arg1) : (f32) -> ()
    }, {
      "polyreme.kernel.yield"(%arg2) : (f32) -> ()
    }) : (i1) -> f32
    "func.return"(%0) : (f32) -> ()
  }) {arg_names = ["condition", "a", "b"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>):
    %0 = "polyreme.nn.abs"(%arg0) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%0) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>):
    %0 = "polyreme.nn.acos"(%arg0) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%0) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>, tensor<4xf32>) -> tensor<?x4xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>, %arg1: tensor<4xf32>):
    %0 = "polyreme.nn.add"(%arg0, %arg1) : (tensor<?x4xf32, ["N"]>, tensor<4xf32>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%0) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x", "y"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xi1, ["N"]>) -> tensor<?xi1, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xi1, ["N"]>):
    %0 = "polyreme.nn.all"(%arg0) {axis = [1], keepdims = false} : (tensor<?x4xi1, ["N"]>) -> tensor<?xi1, ["N"]>
    "func.return"(%0) : (tensor<?xi1, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xi1, ["N"]>) -> tensor<?xi1, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xi1, ["N"]>):
    %0 = "polyreme.nn.any"(%arg0) {axis = [1], keepdims = false} : (tensor<?x4xi1, ["N"]>) -> tensor<?xi1, ["N"]>
    "func.return"(%0) : (tensor<?xi1, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?xi64, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>):
    %0 = "polyreme.nn.arg_max"(%arg0) {axis = -1 : i64, dtype = i64, keepdims = false} : (tensor<?x4xf32, ["N"]>) -> tensor<?xi64, ["N"]>
    "func.return"(%0) : (tensor<?xi64, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?xi64, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>):
    %0 = "polyreme.nn.arg_min"(%arg0) {axis = -1 : i64, dtype = i64, keepdims = false} : (tensor<?x4xf32, ["N"]>) -> tensor<?xi64, ["N"]>
    "func.return"(%0) : (tensor<?xi64, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x2xi64, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>):
    %0 = "polyreme.nn.argsort"(%arg0) {axis = -1 : i64, count = 2 : i64, descending = true} : (tensor<?x4xf32, ["N"]>) -> tensor<?x2xi64, ["N"]>
    "func.return"(%0) : (tensor<?x2xi64, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>):
    %0 = "polyreme.nn.asin"(%arg0) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%0) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>):
    %0 = "polyreme.nn.atan"(%arg0) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%0) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>, tensor<4xf32>) -> tensor<?x4xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>, %arg1: tensor<4xf32>):
    %0 = "polyreme.nn.atan2"(%arg0, %arg1) : (tensor<?x4xf32, ["N"]>, tensor<4xf32>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%0) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x", "y"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x1x4x4xf32, ["N"]>) -> tensor<?x1x2x2xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x1x4x4xf32, ["N"]>):
    %0 = "polyreme.nn.avg_pool"(%arg0) {ceil_mode = false, exclusive = true, kernel = [3, 3], padding = [1, 1, 1, 1], strides = [2, 2]} : (tensor<?x1x4x4xf32, ["N"]>) -> tensor<?x1x2x2xf32, ["N"]>
    "func.return"(%0) : (tensor<?x1x2x2xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x2x3xf32, ["N"]>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<?x2x3xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x2x3xf32, ["N"]>, %arg1: tensor<2xf32>, %arg2: tensor<2xf32>, %arg3: tensor<2xf32>, %arg4: tensor<2xf32>):
    %0 = "polyreme.nn.batch_norm"(%arg0, %arg1, %arg2, %arg3, %arg4) {axis = 1 : i64, epsilon = 1.000000e-05 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1>} : (tensor<?x2x3xf32, ["N"]>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<?x2x3xf32, ["N"]>
    "func.return"(%0) : (tensor<?x2x3xf32, ["N"]>) -> ()
  }) {arg_names = ["x", "m", "v", "w", "b"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xi32, ["N"]>, tensor<4xi32>) -> tensor<?x4xi32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xi32, ["N"]>, %arg1: tensor<4xi32>):
    %0 = "polyreme.nn.bitwise_and"(%arg0, %arg1) : (tensor<?x4xi32, ["N"]>, tensor<4xi32>) -> tensor<?x4xi32, ["N"]>
    "func.return"(%0) : (tensor<?x4xi32, ["N"]>) -> ()
  }) {arg_names = ["x", "y"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xi32, ["N"]>) -> tensor<?x4xi32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xi32, ["N"]>):
    %0 = "polyreme.nn.bitwise_not"(%arg0) : (tensor<?x4xi32, ["N"]>) -> tensor<?x4xi32, ["N"]>
    "func.return"(%0) : (tensor<?x4xi32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xi32, ["N"]>, tensor<4xi32>) -> tensor<?x4xi32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xi32, ["N"]>, %arg1: tensor<4xi32>):
    %0 = "polyreme.nn.bitwise_or"(%arg0, %arg1) : (tensor<?x4xi32, ["N"]>, tensor<4xi32>) -> tensor<?x4xi32, ["N"]>
    "func.return"(%0) : (tensor<?x4xi32, ["N"]>) -> ()
  }) {arg_names = ["x", "y"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xi32, ["N"]>, tensor<4xi32>) -> tensor<?x4xi32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xi32, ["N"]>, %arg1: tensor<4xi32>):
    %0 = "polyreme.nn.bitwise_xor"(%arg0, %arg1) : (tensor<?x4xi32, ["N"]>, tensor<4xi32>) -> tensor<?x4xi32, ["N"]>
    "func.return"(%0) : (tensor<?x4xi32, ["N"]>) -> ()
  }) {arg_names = ["x", "y"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<4xf32>, tensor<?xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<4xf32>, %arg1: tensor<?xf32, ["N"]>):
    %0 = "polyreme.nn.broadcast_to"(%arg0) {shape = [#polyreme.size<"N">, 4]} : (tensor<4xf32>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%0) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x", "z"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xi64, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>):
    %0 = "polyreme.nn.cast"(%arg0) {dtype = i64} : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xi64, ["N"]>
    "func.return"(%0) : (tensor<?x4xi64, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>):
    %0 = "polyreme.nn.ceil"(%arg0) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%0) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x3x3xf32, ["N"]>) -> tensor<?x3x3xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x3x3xf32, ["N"]>):
    %0 = "polyreme.nn.cholesky"(%arg0) {upper = false} : (tensor<?x3x3xf32, ["N"]>) -> tensor<?x3x3xf32, ["N"]>
    "func.return"(%0) : (tensor<?x3x3xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?xf32, ["N"]>, tensor<?xf32, ["N"]>) -> tensor<?xcomplex<f32>, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?xf32, ["N"]>, %arg1: tensor<?xf32, ["N"]>):
    %0 = "polyreme.nn.complex"(%arg0, %arg1) : (tensor<?xf32, ["N"]>, tensor<?xf32, ["N"]>) -> tensor<?xcomplex<f32>, ["N"]>
    "func.return"(%0) : (tensor<?xcomplex<f32>, ["N"]>) -> ()
  }) {arg_names = ["x", "y"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>, tensor<?x3xf32, ["N"]>) -> tensor<?x7xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>, %arg1: tensor<?x3xf32, ["N"]>):
    %0 = "polyreme.nn.concat"(%arg0, %arg1) {axis = 1 : i64} : (tensor<?x4xf32, ["N"]>, tensor<?x3xf32, ["N"]>) -> tensor<?x7xf32, ["N"]>
    "func.return"(%0) : (tensor<?x7xf32, ["N"]>) -> ()
  }) {arg_names = ["x", "y"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?xcomplex<f32>, ["N"]>) -> tensor<?xcomplex<f32>, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?xcomplex<f32>, ["N"]>):
    %0 = "polyreme.nn.conj"(%arg0) : (tensor<?xcomplex<f32>, ["N"]>) -> tensor<?xcomplex<f32>, ["N"]>
    "func.return"(%0) : (tensor<?xcomplex<f32>, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = () -> tensor<2xf32>, sym_name = "example"}> ({
    %0 = "polyreme.nn.constant"() {value = dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>} : () -> tensor<2xf32>
    "func.return"(%0) : (tensor<2xf32>) -> ()
  }) : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x1x4x4xf32, ["N"]>, tensor<2x1x3x3xf32>, tensor<2xf32>) -> tensor<?x2x2x2xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x1x4x4xf32, ["N"]>, %arg1: tensor<2x1x3x3xf32>, %arg2: tensor<2xf32>):
    %0 = "polyreme.nn.conv"(%arg0, %arg1, %arg2) {groups = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1>, padding = [1, 1, 1, 1], strides = [2, 2]} : (tensor<?x1x4x4xf32, ["N"]>, tensor<2x1x3x3xf32>, tensor<2xf32>) -> tensor<?x2x2x2xf32, ["N"]>
    "func.return"(%0) : (tensor<?x2x2x2xf32, ["N"]>) -> ()
  }) {arg_names = ["x", "w", "b"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x1x9xf32, ["N"]>, tensor<?x2x4xf32, ["N"]>) -> tensor<2x1x3xf32>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x1x9xf32, ["N"]>, %arg1: tensor<?x2x4xf32, ["N"]>):
    %0 = "polyreme.nn.conv_filter"(%arg0, %arg1) {groups = 1 : i64, kernel = [3], strides = [2]} : (tensor<?x1x9xf32, ["N"]>, tensor<?x2x4xf32, ["N"]>) -> tensor<2x1x3xf32>
    "func.return"(%0) : (tensor<2x1x3xf32>) -> ()
  }) {arg_names = ["x", "dy"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x1x4xf32, ["N"]>, tensor<1x2x3xf32>) -> tensor<?x2x9xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x1x4xf32, ["N"]>, %arg1: tensor<1x2x3xf32>):
    %0 = "polyreme.nn.conv_transpose"(%arg0, %arg1) {groups = 1 : i64, sizes = [9], strides = [2]} : (tensor<?x1x4xf32, ["N"]>, tensor<1x2x3xf32>) -> tensor<?x2x9xf32, ["N"]>
    "func.return"(%0) : (tensor<?x2x9xf32, ["N"]>) -> ()
  }) {arg_names = ["x", "w"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>):
    %0 = "polyreme.nn.cos"(%arg0) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%0) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>):
    %0 = "polyreme.nn.cosh"(%arg0) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%0) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>, tensor<?x1xi64, ["N"]>) -> tensor<?x1xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>, %arg1: tensor<?x1xi64, ["N"]>):
    %0 = "polyreme.nn.cross_entropy"(%arg0, %arg1) {axis = -1 : i64, ignore_index = -100 : i64, soft_label = false} : (tensor<?x4xf32, ["N"]>, tensor<?x1xi64, ["N"]>) -> tensor<?x1xf32, ["N"]>
    "func.return"(%0) : (tensor<?x1xf32, ["N"]>) -> ()
  }) {arg_names = ["x", "t"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>):
    %0 = "polyreme.nn.cumsum"(%arg0) {axis = 1 : i64} : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%0) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xi8, ["N"]>, tensor<f32>) -> tensor<?x4xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xi8, ["N"]>, %arg1: tensor<f32>):
    %0 = "polyreme.nn.dequantize_linear"(%arg0, %arg1) {axis = 0 : i64, operandSegmentSizes = array<i32: 1, 1, 0>} : (tensor<?x4xi8, ["N"]>, tensor<f32>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%0) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["q", "s"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?xf32, ["N"]>) -> tensor<i64>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?xf32, ["N"]>):
    %0 = "polyreme.nn.dim_value"() {dtype = i64, size = #polyreme.size<"3*N">} : () -> tensor<i64>
    "func.return"(%0) : (tensor<i64>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>, tensor<4xf32>) -> tensor<?x4xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>, %arg1: tensor<4xf32>):
    %0 = "polyreme.nn.div"(%arg0, %arg1) : (tensor<?x4xf32, ["N"]>, tensor<4xf32>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%0) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x", "y"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>, tensor<?x1xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>, %arg1: tensor<?x1xf32, ["N"]>):
    %0 = "polyreme.nn.dropout"(%arg0, %arg1) {mode = "upscale_in_train", p = 3.000000e-01 : f64} : (tensor<?x4xf32, ["N"]>, tensor<?x1xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%0) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x", "d"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>, tensor<4xf32>) -> tensor<?x4xi1, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>, %arg1: tensor<4xf32>):
    %0 = "polyreme.nn.equal"(%arg0, %arg1) : (tensor<?x4xf32, ["N"]>, tensor<4xf32>) -> tensor<?x4xi1, ["N"]>
    "func.return"(%0) : (tensor<?x4xi1, ["N"]>) -> ()
  }) {arg_names = ["x", "y"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>):
    %0 = "polyreme.nn.erf"(%arg0) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%0) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>):
    %0 = "polyreme.nn.exp"(%arg0) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%0) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>):
    %0 = "polyreme.nn.expm1"(%arg0) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%0) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>, tensor<f32>) -> tensor<?x4xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>, %arg1: tensor<f32>):
    %0 = "polyreme.nn.fake_quantize"(%arg0, %arg1) {axis = 0 : i64, bit_length = 8 : i64, ties = "even"} : (tensor<?x4xf32, ["N"]>, tensor<f32>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%0) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x", "s"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>):
    %0 = "polyreme.nn.flip"(%arg0) {axes = [-1]} : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%0) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>):
    %0 = "polyreme.nn.floor"(%arg0) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%0) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>, tensor<4xf32>) -> tensor<?x4xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>, %arg1: tensor<4xf32>):
    %0 = "polyreme.nn.floor_divide"(%arg0, %arg1) : (tensor<?x4xf32, ["N"]>, tensor<4xf32>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%0) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x", "y"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4x3xf32, ["N"]>) -> tensor<?x9xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4x3xf32, ["N"]>):
    %0 = "polyreme.nn.fold"(%arg0) {axes = [1], dilations = [1], sizes = [9], strides = [2]} : (tensor<?x4x3xf32, ["N"]>) -> tensor<?x9xf32, ["N"]>
    "func.return"(%0) : (tensor<?x9xf32, ["N"]>) -> ()
  }) {arg_names = ["w"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?xf32, ["N"]>):
    %0 = "polyreme.nn.full"() {dtype = f32, shape = [#polyreme.size<"N">, 4], value = 5.000000e-01 : f64} : () -> tensor<?x4xf32, ["N"]>
    "func.return"(%0) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<4x2xf32>, tensor<2x3xi64>) -> tensor<2x3x2xf32>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<4x2xf32>, %arg1: tensor<2x3xi64>):
    %0 = "polyreme.nn.gather"(%arg0, %arg1) {axis = 0 : i64} : (tensor<4x2xf32>, tensor<2x3xi64>) -> tensor<2x3x2xf32>
    "func.return"(%0) : (tensor<2x3x2xf32>) -> ()
  }) {arg_names = ["x", "i"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>):
    %0 = "polyreme.nn.gelu"(%arg0) {approximate = true} : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%0) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>, tensor<4xf32>) -> tensor<?x4xi1, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>, %arg1: tensor<4xf32>):
    %0 = "polyreme.nn.greater"(%arg0, %arg1) : (tensor<?x4xf32, ["N"]>, tensor<4xf32>) -> tensor<?x4xi1, ["N"]>
    "func.return"(%0) : (tensor<?x4xi1, ["N"]>) -> ()
  }) {arg_names = ["x", "y"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>, tensor<4xf32>) -> tensor<?x4xi1, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>, %arg1: tensor<4xf32>):
    %0 = "polyreme.nn.greater_equal"(%arg0, %arg1) : (tensor<?x4xf32, ["N"]>, tensor<4xf32>) -> tensor<?x4xi1, ["N"]>
    "func.return"(%0) : (tensor<?x4xi1, ["N"]>) -> ()
  }) {arg_names = ["x", "y"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<3x2x12xf32>, tensor<12x4xf32>, tensor<2x4xf32>, tensor<12xf32>) -> tensor<3x2x4xf32>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<3x2x12xf32>, %arg1: tensor<12x4xf32>, %arg2: tensor<2x4xf32>, %arg3: tensor<12xf32>):
    %0 = "polyreme.nn.gru"(%arg0, %arg1, %arg2, %arg3) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0>, reverse = false} : (tensor<3x2x12xf32>, tensor<12x4xf32>, tensor<2x4xf32>, tensor<12xf32>) -> tensor<3x2x4xf32>
    "func.return"(%0) : (tensor<3x2x4xf32>) -> ()
  }) {arg_names = ["x", "w", "s", "b"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<3x2x12xf32>, tensor<12x4xf32>, tensor<2x4xf32>, tensor<3x2x4xf32>, tensor<3x2x4xf32>, tensor<12xf32>) -> (tensor<3x2x12xf32>, tensor<3x2x12xf32>, tensor<2x4xf32>), sym_name = "example"}> ({
  ^bb0(%arg0: tensor<3x2x12xf32>, %arg1: tensor<12x4xf32>, %arg2: tensor<2x4xf32>, %arg3: tensor<3x2x4xf32>, %arg4: tensor<3x2x4xf32>, %arg5: tensor<12xf32>):
    %0:3 = "polyreme.nn.gru_gradient"(%arg0, %arg1, %arg2, %arg3, %arg4, %arg5) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0>, reverse = false} : (tensor<3x2x12xf32>, tensor<12x4xf32>, tensor<2x4xf32>, tensor<3x2x4xf32>, tensor<3x2x4xf32>, tensor<12xf32>) -> (tensor<3x2x12xf32>, tensor<3x2x12xf32>, tensor<2x4xf32>)
    "func.return"(%0#0, %0#1, %0#2) : (tensor<3x2x12xf32>, tensor<3x2x12xf32>, tensor<2x4xf32>) -> ()
  }) {arg_names = ["x", "w", "s", "h", "d", "b"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?xcomplex<f32>, ["N"]>) -> tensor<?xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?xcomplex<f32>, ["N"]>):
    %0 = "polyreme.nn.imag"(%arg0) : (tensor<?xcomplex<f32>, ["N"]>) -> tensor<?xf32, ["N"]>
    "func.return"(%0) : (tensor<?xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x3x3xf32, ["N"]>) -> tensor<?x3x3xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x3x3xf32, ["N"]>):
    %0 = "polyreme.nn.inverse"(%arg0) : (tensor<?x3x3xf32, ["N"]>) -> tensor<?x3x3xf32, ["N"]>
    "func.return"(%0) : (tensor<?x3x3xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = () -> tensor<2x5xi64>, sym_name = "example"}> ({
    %0 = "polyreme.nn.iota"() {axis = -1 : i64, dtype = i64, shape = [2, 5]} : () -> tensor<2x5xi64>
    "func.return"(%0) : (tensor<2x5xi64>) -> ()
  }) : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xi1, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>):
    %0 = "polyreme.nn.is_finite"(%arg0) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xi1, ["N"]>
    "func.return"(%0) : (tensor<?x4xi1, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xi1, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>):
    %0 = "polyreme.nn.is_inf"(%arg0) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xi1, ["N"]>
    "func.return"(%0) : (tensor<?x4xi1, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xi1, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>):
    %0 = "polyreme.nn.is_nan"(%arg0) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xi1, ["N"]>
    "func.return"(%0) : (tensor<?x4xi1, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>):
    %0 = "polyreme.nn.leaky_relu"(%arg0) {alpha = 1.000000e-01 : f64} : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%0) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>, tensor<4xf32>) -> tensor<?x4xi1, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>, %arg1: tensor<4xf32>):
    %0 = "polyreme.nn.less"(%arg0, %arg1) : (tensor<?x4xf32, ["N"]>, tensor<4xf32>) -> tensor<?x4xi1, ["N"]>
    "func.return"(%0) : (tensor<?x4xi1, ["N"]>) -> ()
  }) {arg_names = ["x", "y"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>, tensor<4xf32>) -> tensor<?x4xi1, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>, %arg1: tensor<4xf32>):
    %0 = "polyreme.nn.less_equal"(%arg0, %arg1) : (tensor<?x4xf32, ["N"]>, tensor<4xf32>) -> tensor<?x4xi1, ["N"]>
    "func.return"(%0) : (tensor<?x4xi1, ["N"]>) -> ()
  }) {arg_names = ["x", "y"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>, tensor<4x3xf32>, tensor<3xf32>) -> tensor<?x3xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>, %arg1: tensor<4x3xf32>, %arg2: tensor<3xf32>):
    %0 = "polyreme.nn.linear"(%arg0, %arg1, %arg2) {operandSegmentSizes = array<i32: 1, 1, 1>} : (tensor<?x4xf32, ["N"]>, tensor<4x3xf32>, tensor<3xf32>) -> tensor<?x3xf32, ["N"]>
    "func.return"(%0) : (tensor<?x3xf32, ["N"]>) -> ()
  }) {arg_names = ["x", "w", "b"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>):
    %0 = "polyreme.nn.log"(%arg0) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%0) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>):
    %0 = "polyreme.nn.log10"(%arg0) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%0) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>):
    %0 = "polyreme.nn.log1p"(%arg0) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%0) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>):
    %0 = "polyreme.nn.log2"(%arg0) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%0) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>):
    %0 = "polyreme.nn.log_softmax"(%arg0) {axis = -1 : i64} : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%0) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xi1, ["N"]>, tensor<4xi1>) -> tensor<?x4xi1, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xi1, ["N"]>, %arg1: tensor<4xi1>):
    %0 = "polyreme.nn.logical_and"(%arg0, %arg1) : (tensor<?x4xi1, ["N"]>, tensor<4xi1>) -> tensor<?x4xi1, ["N"]>
    "func.return"(%0) : (tensor<?x4xi1, ["N"]>) -> ()
  }) {arg_names = ["x", "y"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<4xi1>) -> tensor<4xi1>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<4xi1>):
    %0 = "polyreme.nn.logical_not"(%arg0) : (tensor<4xi1>) -> tensor<4xi1>
    "func.return"(%0) : (tensor<4xi1>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xi1, ["N"]>, tensor<4xi1>) -> tensor<?x4xi1, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xi1, ["N"]>, %arg1: tensor<4xi1>):
    %0 = "polyreme.nn.logical_or"(%arg0, %arg1) : (tensor<?x4xi1, ["N"]>, tensor<4xi1>) -> tensor<?x4xi1, ["N"]>
    "func.return"(%0) : (tensor<?x4xi1, ["N"]>) -> ()
  }) {arg_names = ["x", "y"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xi1, ["N"]>, tensor<4xi1>) -> tensor<?x4xi1, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xi1, ["N"]>, %arg1: tensor<4xi1>):
    %0 = "polyreme.nn.logical_xor"(%arg0, %arg1) : (tensor<?x4xi1, ["N"]>, tensor<4xi1>) -> tensor<?x4xi1, ["N"]>
    "func.return"(%0) : (tensor<?x4xi1, ["N"]>) -> ()
  }) {arg_names = ["x", "y"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<3x2x16xf32>, tensor<16x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>) -> (tensor<3x2x4xf32>, tensor<3x2x4xf32>), sym_name = "example"}> ({
  ^bb0(%arg0: tensor<3x2x16xf32>, %arg1: tensor<16x4xf32>, %arg2: tensor<2x4xf32>, %arg3: tensor<2x4xf32>):
    %0:2 = "polyreme.nn.lstm"(%arg0, %arg1, %arg2, %arg3) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0>, reverse = false} : (tensor<3x2x16xf32>, tensor<16x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>) -> (tensor<3x2x4xf32>, tensor<3x2x4xf32>)
    "func.return"(%0#0, %0#1) : (tensor<3x2x4xf32>, tensor<3x2x4xf32>) -> ()
  }) {arg_names = ["x", "w", "s", "k"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<3x2x16xf32>, tensor<16x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<3x2x4xf32>, tensor<3x2x4xf32>, tensor<3x2x4xf32>) -> (tensor<3x2x16xf32>, tensor<2x4xf32>, tensor<2x4xf32>), sym_name = "example"}> ({
  ^bb0(%arg0: tensor<3x2x16xf32>, %arg1: tensor<16x4xf32>, %arg2: tensor<2x4xf32>, %arg3: tensor<2x4xf32>, %arg4: tensor<3x2x4xf32>, %arg5: tensor<3x2x4xf32>, %arg6: tensor<3x2x4xf32>):
    %0:3 = "polyreme.nn.lstm_gradient"(%arg0, %arg1, %arg2, %arg3, %arg4, %arg5, %arg6) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 0, 0>, reverse = false} : (tensor<3x2x16xf32>, tensor<16x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<3x2x4xf32>, tensor<3x2x4xf32>, tensor<3x2x4xf32>) -> (tensor<3x2x16xf32>, tensor<2x4xf32>, tensor<2x4xf32>)
    "func.return"(%0#0, %0#1, %0#2) : (tensor<3x2x16xf32>, tensor<2x4xf32>, tensor<2x4xf32>) -> ()
  }) {arg_names = ["x", "w", "s", "k", "h", "c", "d"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x2x3xf32, ["N"]>, tensor<4x3xf32>) -> tensor<?x2x4xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x2x3xf32, ["N"]>, %arg1: tensor<4x3xf32>):
    %0 = "polyreme.nn.matmul"(%arg0, %arg1) {transpose_x = false, transpose_y = true} : (tensor<?x2x3xf32, ["N"]>, tensor<4x3xf32>) -> tensor<?x2x4xf32, ["N"]>
    "func.return"(%0) : (tensor<?x2x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x", "y"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>):
    %0 = "polyreme.nn.max"(%arg0) {axis = [1], keepdims = false} : (tensor<?x4xf32, ["N"]>) -> tensor<?xf32, ["N"]>
    "func.return"(%0) : (tensor<?xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x1x4x4xf32, ["N"]>) -> tensor<?x1x2x2xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x1x4x4xf32, ["N"]>):
    %0 = "polyreme.nn.max_pool"(%arg0) {ceil_mode = false, kernel = [2, 2], strides = [2, 2]} : (tensor<?x1x4x4xf32, ["N"]>) -> tensor<?x1x2x2xf32, ["N"]>
    "func.return"(%0) : (tensor<?x1x2x2xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>, tensor<4xf32>) -> tensor<?x4xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>, %arg1: tensor<4xf32>):
    %0 = "polyreme.nn.maximum"(%arg0, %arg1) : (tensor<?x4xf32, ["N"]>, tensor<4xf32>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%0) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x", "y"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>) -> tensor<4xf32>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>):
    %0 = "polyreme.nn.mean"(%arg0) {axis = [0], keepdims = false} : (tensor<?x4xf32, ["N"]>) -> tensor<4xf32>
    "func.return"(%0) : (tensor<4xf32>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>):
    %0 = "polyreme.nn.min"(%arg0) {axis = [1], keepdims = false} : (tensor<?x4xf32, ["N"]>) -> tensor<?xf32, ["N"]>
    "func.return"(%0) : (tensor<?xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>, tensor<4xf32>) -> tensor<?x4xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>, %arg1: tensor<4xf32>):
    %0 = "polyreme.nn.minimum"(%arg0, %arg1) : (tensor<?x4xf32, ["N"]>, tensor<4xf32>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%0) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x", "y"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>, tensor<4xf32>) -> tensor<?x4xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>, %arg1: tensor<4xf32>):
    %0 = "polyreme.nn.mod"(%arg0, %arg1) : (tensor<?x4xf32, ["N"]>, tensor<4xf32>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%0) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x", "y"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>, tensor<4xf32>) -> tensor<?x4xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>, %arg1: tensor<4xf32>):
    %0 = "polyreme.nn.mul"(%arg0, %arg1) : (tensor<?x4xf32, ["N"]>, tensor<4xf32>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%0) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x", "y"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>):
    %0 = "polyreme.nn.neg"(%arg0) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%0) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>, tensor<4xf32>) -> tensor<?x4xi1, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>, %arg1: tensor<4xf32>):
    %0 = "polyreme.nn.not_equal"(%arg0, %arg1) : (tensor<?x4xf32, ["N"]>, tensor<4xf32>) -> tensor<?x4xi1, ["N"]>
    "func.return"(%0) : (tensor<?x4xi1, ["N"]>) -> ()
  }) {arg_names = ["x", "y"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x7xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>):
    %0 = "polyreme.nn.pad"(%arg0) {padding = [0, 0, 1, 2], value = -1.000000e+00 : f64} : (tensor<?x4xf32, ["N"]>) -> tensor<?x7xf32, ["N"]>
    "func.return"(%0) : (tensor<?x7xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>, tensor<4xf32>) -> tensor<?x4xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>, %arg1: tensor<4xf32>):
    %0 = "polyreme.nn.pow"(%arg0, %arg1) : (tensor<?x4xf32, ["N"]>, tensor<4xf32>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%0) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x", "y"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>):
    %0 = "polyreme.nn.prod"(%arg0) {axis = [1], keepdims = false} : (tensor<?x4xf32, ["N"]>) -> tensor<?xf32, ["N"]>
    "func.return"(%0) : (tensor<?xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>, tensor<4xf32>) -> tensor<?x4xi8, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>, %arg1: tensor<4xf32>):
    %0 = "polyreme.nn.quantize_linear"(%arg0, %arg1) {axis = 1 : i64, bit_length = 8 : i64, operandSegmentSizes = array<i32: 1, 1, 0>} : (tensor<?x4xf32, ["N"]>, tensor<4xf32>) -> tensor<?x4xi8, ["N"]>
    "func.return"(%0) : (tensor<?x4xi8, ["N"]>) -> ()
  }) {arg_names = ["x", "s"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?xcomplex<f32>, ["N"]>) -> tensor<?xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?xcomplex<f32>, ["N"]>):
    %0 = "polyreme.nn.real"(%arg0) : (tensor<?xcomplex<f32>, ["N"]>) -> tensor<?xf32, ["N"]>
    "func.return"(%0) : (tensor<?xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>):
    %0 = "polyreme.nn.reciprocal"(%arg0) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%0) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>):
    %0 = "polyreme.nn.relu"(%arg0) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%0) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x2x3xf32, ["N"]>) -> tensor<?x6xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x2x3xf32, ["N"]>):
    %0 = "polyreme.nn.reshape"(%arg0) {shape = [#polyreme.size<"N">, 6]} : (tensor<?x2x3xf32, ["N"]>) -> tensor<?x6xf32, ["N"]>
    "func.return"(%0) : (tensor<?x6xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>):
    %0 = "polyreme.nn.round"(%arg0) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%0) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>):
    %0 = "polyreme.nn.rsqrt"(%arg0) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%0) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<4x2xf32>, tensor<2x3x2xf32>, tensor<2x3xi64>) -> tensor<4x2xf32>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<4x2xf32>, %arg1: tensor<2x3x2xf32>, %arg2: tensor<2x3xi64>):
    %0 = "polyreme.nn.scatter"(%arg0, %arg1, %arg2) {axis = 0 : i64} : (tensor<4x2xf32>, tensor<2x3x2xf32>, tensor<2x3xi64>) -> tensor<4x2xf32>
    "func.return"(%0) : (tensor<4x2xf32>) -> ()
  }) {arg_names = ["x", "u", "i"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<2x3x2xf32>, tensor<2x3xi64>) -> tensor<4x2xf32>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<2x3x2xf32>, %arg1: tensor<2x3xi64>):
    %0 = "polyreme.nn.scatter_add"(%arg0, %arg1) {axis = 0 : i64, size = 4 : i64} : (tensor<2x3x2xf32>, tensor<2x3xi64>) -> tensor<4x2xf32>
    "func.return"(%0) : (tensor<4x2xf32>) -> ()
  }) {arg_names = ["u", "i"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>):
    %0 = "polyreme.nn.sigmoid"(%arg0) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%0) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>):
    %0 = "polyreme.nn.sign"(%arg0) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%0) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>):
    %0 = "polyreme.nn.silu"(%arg0) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%0) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<3x2x4xf32>, tensor<4x4xf32>, tensor<2x4xf32>) -> tensor<3x2x4xf32>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<3x2x4xf32>, %arg1: tensor<4x4xf32>, %arg2: tensor<2x4xf32>):
    %0 = "polyreme.nn.simple_rnn"(%arg0, %arg1, %arg2) {activation = "tanh", operandSegmentSizes = array<i32: 1, 1, 1, 0>, reverse = false} : (tensor<3x2x4xf32>, tensor<4x4xf32>, tensor<2x4xf32>) -> tensor<3x2x4xf32>
    "func.return"(%0) : (tensor<3x2x4xf32>) -> ()
  }) {arg_names = ["x", "w", "s"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<4x4xf32>, tensor<3x2x4xf32>, tensor<3x2x4xf32>) -> (tensor<3x2x4xf32>, tensor<2x4xf32>), sym_name = "example"}> ({
  ^bb0(%arg0: tensor<4x4xf32>, %arg1: tensor<3x2x4xf32>, %arg2: tensor<3x2x4xf32>):
    %0:2 = "polyreme.nn.simple_rnn_gradient"(%arg0, %arg1, %arg2) {activation = "tanh", operandSegmentSizes = array<i32: 1, 1, 1, 0>, reverse = false} : (tensor<4x4xf32>, tensor<3x2x4xf32>, tensor<3x2x4xf32>) -> (tensor<3x2x4xf32>, tensor<2x4xf32>)
    "func.return"(%0#0, %0#1) : (tensor<3x2x4xf32>, tensor<2x4xf32>) -> ()
  }) {arg_names = ["w", "h", "d"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>):
    %0 = "polyreme.nn.sin"(%arg0) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%0) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>):
    %0 = "polyreme.nn.sinh"(%arg0) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%0) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x2xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>):
    %0 = "polyreme.nn.slice"(%arg0) {starts = [0, 1], stops = [#polyreme.size<"N">, 4], strides = [1, 2]} : (tensor<?x4xf32, ["N"]>) -> tensor<?x2xf32, ["N"]>
    "func.return"(%0) : (tensor<?x2xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>):
    %0 = "polyreme.nn.softmax"(%arg0) {axis = -1 : i64} : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%0) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>):
    %0 = "polyreme.nn.softplus"(%arg0) {beta = 2.000000e+00 : f64, threshold = 2.000000e+01 : f64} : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%0) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>):
    %0 = "polyreme.nn.sqrt"(%arg0) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%0) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>):
    %0 = "polyreme.nn.square"(%arg0) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%0) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>, tensor<4xf32>, tensor<4xf32>) -> (tensor<?x4xf32, ["N"]>, tensor<?xf32, ["N"]>, tensor<?xf32, ["N"]>), sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>, %arg1: tensor<4xf32>, %arg2: tensor<4xf32>):
    %0:3 = "polyreme.nn.standardize"(%arg0, %arg1, %arg2) {affine = [-1], axes = [-1], epsilon = 1.000000e-05 : f64, operandSegmentSizes = array<i32: 1, 1, 1>} : (tensor<?x4xf32, ["N"]>, tensor<4xf32>, tensor<4xf32>) -> (tensor<?x4xf32, ["N"]>, tensor<?xf32, ["N"]>, tensor<?xf32, ["N"]>)
    "func.return"(%0#0, %0#1, %0#2) : (tensor<?x4xf32, ["N"]>, tensor<?xf32, ["N"]>, tensor<?xf32, ["N"]>) -> ()
  }) {arg_names = ["x", "w", "b"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>, tensor<?x4xf32, ["N"]>, tensor<?xf32, ["N"]>, tensor<?xf32, ["N"]>, tensor<4xf32>) -> (tensor<?x4xf32, ["N"]>, tensor<4xf32>, tensor<4xf32>), sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>, %arg1: tensor<?x4xf32, ["N"]>, %arg2: tensor<?xf32, ["N"]>, %arg3: tensor<?xf32, ["N"]>, %arg4: tensor<4xf32>):
    %0:3 = "polyreme.nn.standardize_gradient"(%arg0, %arg1, %arg2, %arg3, %arg4) {affine = [-1], axes = [-1], epsilon = 1.000000e-05 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1>} : (tensor<?x4xf32, ["N"]>, tensor<?x4xf32, ["N"]>, tensor<?xf32, ["N"]>, tensor<?xf32, ["N"]>, tensor<4xf32>) -> (tensor<?x4xf32, ["N"]>, tensor<4xf32>, tensor<4xf32>)
    "func.return"(%0#0, %0#1, %0#2) : (tensor<?x4xf32, ["N"]>, tensor<4xf32>, tensor<4xf32>) -> ()
  }) {arg_names = ["x", "dy", "m", "v", "w"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>):
    %0 = "polyreme.nn.stop_gradient"(%arg0) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%0) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>, tensor<4xf32>) -> tensor<?x4xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>, %arg1: tensor<4xf32>):
    %0 = "polyreme.nn.sub"(%arg0, %arg1) : (tensor<?x4xf32, ["N"]>, tensor<4xf32>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%0) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x", "y"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x1xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>):
    %0 = "polyreme.nn.sum"(%arg0) {axis = [-1], keepdims = true} : (tensor<?x4xf32, ["N"]>) -> tensor<?x1xf32, ["N"]>
    "func.return"(%0) : (tensor<?x1xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>):
    %0 = "polyreme.nn.tan"(%arg0) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%0) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>):
    %0 = "polyreme.nn.tanh"(%arg0) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%0) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>) -> tensor<4x?xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>):
    %0 = "polyreme.nn.transpose"(%arg0) {perm = [1, 0]} : (tensor<?x4xf32, ["N"]>) -> tensor<4x?xf32, ["N"]>
    "func.return"(%0) : (tensor<4x?xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>):
    %0 = "polyreme.nn.trunc"(%arg0) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%0) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<313xui64>) -> (tensor<4xf32>, tensor<313xui64>), sym_name = "example"}> ({
  ^bb0(%arg0: tensor<313xui64>):
    %0:2 = "polyreme.nn.uniform"(%arg0) {dtype = f32, high = 1.000000e+00 : f64, low = -1.000000e+00 : f64, shape = [4]} : (tensor<313xui64>) -> (tensor<4xf32>, tensor<313xui64>)
    "func.return"(%0#0, %0#1) : (tensor<4xf32>, tensor<313xui64>) -> ()
  }) {arg_names = ["s"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x1xi1, ["N"]>, tensor<4xf32>, tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x1xi1, ["N"]>, %arg1: tensor<4xf32>, %arg2: tensor<?x4xf32, ["N"]>):
    %0 = "polyreme.nn.where"(%arg0, %arg1, %arg2) : (tensor<?x1xi1, ["N"]>, tensor<4xf32>, tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%0) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["c", "x", "y"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x9xf32, ["N"]>) -> tensor<?x4x3xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x9xf32, ["N"]>):
    %0 = "polyreme.nn.window"(%arg0) {axes = [1], dilations = [1], sizes = [3], strides = [2]} : (tensor<?x9xf32, ["N"]>) -> tensor<?x4x3xf32, ["N"]>
    "func.return"(%0) : (tensor<?x4x3xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?xi64, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>):
    %0 = "polyreme.tensor.arg_reduce"(%arg0) {axis = 1 : i64, dtype = i64, fn = "max", keepdims = false} : (tensor<?x4xf32, ["N"]>) -> tensor<?xi64, ["N"]>
    "func.return"(%0) : (tensor<?xi64, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x2xi64, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>):
    %0 = "polyreme.tensor.argsort"(%arg0) {count = 2 : i64, descending = false} : (tensor<?x4xf32, ["N"]>) -> tensor<?x2xi64, ["N"]>
    "func.return"(%0) : (tensor<?x2xi64, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x1xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x1xf32, ["N"]>):
    %0 = "polyreme.tensor.broadcast"(%arg0) {shape = [#polyreme.size<"N">, 4]} : (tensor<?x1xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%0) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>, tensor<?x3xf32, ["N"]>) -> tensor<?x7xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>, %arg1: tensor<?x3xf32, ["N"]>):
    %0 = "polyreme.tensor.concat"(%arg0, %arg1) {axis = 1 : i64} : (tensor<?x4xf32, ["N"]>, tensor<?x3xf32, ["N"]>) -> tensor<?x7xf32, ["N"]>
    "func.return"(%0) : (tensor<?x7xf32, ["N"]>) -> ()
  }) {arg_names = ["x", "y"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = () -> tensor<2xf32>, sym_name = "example"}> ({
    %0 = "polyreme.tensor.constant"() {value = dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>} : () -> tensor<2xf32>
    "func.return"(%0) : (tensor<2xf32>) -> ()
  }) : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>, tensor<4x3xf32>) -> tensor<?x3xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>, %arg1: tensor<4x3xf32>):
    %0 = "polyreme.tensor.contract"(%arg0, %arg1) {spec = "mk,kn->mn"} : (tensor<?x4xf32, ["N"]>, tensor<4x3xf32>) -> tensor<?x3xf32, ["N"]>
    "func.return"(%0) : (tensor<?x3xf32, ["N"]>) -> ()
  }) {arg_names = ["x", "y"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>):
    %0 = "polyreme.tensor.cumulate"(%arg0) {axis = 1 : i64, fn = "add"} : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%0) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?xf32, ["N"]>) -> tensor<f32>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?xf32, ["N"]>):
    %0 = "polyreme.tensor.dim_value"() {dtype = f32, size = #polyreme.size<"3*N">} : () -> tensor<f32>
    "func.return"(%0) : (tensor<f32>) -> ()
  }) {arg_names = ["sizes"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4x3xf32, ["N"]>) -> tensor<?x9xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4x3xf32, ["N"]>):
    %0 = "polyreme.tensor.fold"(%arg0) {axes = [1], dilations = [1], sizes = [9], strides = [2]} : (tensor<?x4x3xf32, ["N"]>) -> tensor<?x9xf32, ["N"]>
    "func.return"(%0) : (tensor<?x9xf32, ["N"]>) -> ()
  }) {arg_names = ["w"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?xf32, ["N"]>):
    %0 = "polyreme.tensor.full"() {dtype = f32, shape = [#polyreme.size<"N">, 4], value = 5.000000e-01 : f64} : () -> tensor<?x4xf32, ["N"]>
    "func.return"(%0) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>, tensor<1x4xf32>) -> tensor<?x4xf32, ["N"]>, sym_name = "main"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>, %arg1: tensor<1x4xf32>):
    %0 = "polyreme.tensor.fused"(%arg0, %arg1) ({
    ^bb0(%arg2: tensor<?x4xf32, ["N"]>, %arg3: tensor<1x4xf32>):
      %1 = "polyreme.tensor.map"(%arg2, %arg3) {fn = "add"} : (tensor<?x4xf32, ["N"]>, tensor<1x4xf32>) -> tensor<?x4xf32, ["N"]>
      %2 = "polyreme.tensor.map"(%1) {fn = "tanh"} : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
      "polyreme.tensor.yield"(%2) : (tensor<?x4xf32, ["N"]>) -> ()
    }) : (tensor<?x4xf32, ["N"]>, tensor<1x4xf32>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%0) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x", "y"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<4x2xf32>, tensor<2x3xi64>) -> tensor<2x3x2xf32>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<4x2xf32>, %arg1: tensor<2x3xi64>):
    %0 = "polyreme.tensor.gather"(%arg0, %arg1) {axis = 0 : i64} : (tensor<4x2xf32>, tensor<2x3xi64>) -> tensor<2x3x2xf32>
    "func.return"(%0) : (tensor<2x3x2xf32>) -> ()
  }) {arg_names = ["x", "i"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = () -> tensor<2x5xi64>, sym_name = "example"}> ({
    %0 = "polyreme.tensor.iota"() {axis = 1 : i64, dtype = i64, shape = [2, 5]} : () -> tensor<2x5xi64>
    "func.return"(%0) : (tensor<2x5xi64>) -> ()
  }) : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>, tensor<1x4xf32>) -> tensor<?x4xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>, %arg1: tensor<1x4xf32>):
    %0 = "polyreme.tensor.map"(%arg0, %arg1) {fn = "add"} : (tensor<?x4xf32, ["N"]>, tensor<1x4xf32>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%0) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x", "y"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x7xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>):
    %0 = "polyreme.tensor.pad"(%arg0) {high = [0, 2], interior = [0, 0], low = [0, 1], value = 0.000000e+00 : f64} : (tensor<?x4xf32, ["N"]>) -> tensor<?x7xf32, ["N"]>
    "func.return"(%0) : (tensor<?x7xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?xcomplex<f32>, ["N"]>) -> tensor<?x2xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?xcomplex<f32>, ["N"]>):
    %0 = "polyreme.tensor.pairs"(%arg0) : (tensor<?xcomplex<f32>, ["N"]>) -> tensor<?x2xf32, ["N"]>
    "func.return"(%0) : (tensor<?x2xf32, ["N"]>) -> ()
  }) {arg_names = ["z"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<313xui64>) -> (tensor<4xf32>, tensor<313xui64>), sym_name = "example"}> ({
  ^bb0(%arg0: tensor<313xui64>):
    %0:2 = "polyreme.tensor.random"(%arg0) {dtype = f32, high = 1.000000e+00 : f64, low = -1.000000e+00 : f64, shape = [4]} : (tensor<313xui64>) -> (tensor<4xf32>, tensor<313xui64>)
    "func.return"(%0#0, %0#1) : (tensor<4xf32>, tensor<313xui64>) -> ()
  }) {arg_names = ["s"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>):
    %0 = "polyreme.tensor.reduce"(%arg0) {axes = [1], fn = "add", keepdims = false} : (tensor<?x4xf32, ["N"]>) -> tensor<?xf32, ["N"]>
    "func.return"(%0) : (tensor<?xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x2x3xf32, ["N"]>) -> tensor<?xf32, ["6*N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x2x3xf32, ["N"]>):
    %0 = "polyreme.tensor.reshape"(%arg0) {shape = [#polyreme.size<"6*N">]} : (tensor<?x2x3xf32, ["N"]>) -> tensor<?xf32, ["6*N"]>
    "func.return"(%0) : (tensor<?xf32, ["6*N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>):
    %0 = "polyreme.tensor.reverse"(%arg0) {axes = [1]} : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%0) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<3x2x4xf32>, tensor<2x4xf32>, tensor<4x4xf32>) -> (tensor<2x4xf32>, tensor<3x2x4xf32>), sym_name = "example"}> ({
  ^bb0(%arg0: tensor<3x2x4xf32>, %arg1: tensor<2x4xf32>, %arg2: tensor<4x4xf32>):
    %0:2 = "polyreme.tensor.scan"(%arg0, %arg1, %arg2) ({
    ^bb0(%arg3: tensor<2x4xf32>, %arg4: tensor<2x4xf32>, %arg5: tensor<4x4xf32>):
      %1 = "polyreme.tensor.contract"(%arg4, %arg5) {spec = "bk,nk->bn"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
      %2 = "polyreme.tensor.map"(%1, %arg3) {fn = "add"} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
      %3 = "polyreme.tensor.map"(%2) {fn = "tanh"} : (tensor<2x4xf32>) -> tensor<2x4xf32>
      "polyreme.tensor.yield"(%3, %3) : (tensor<2x4xf32>, tensor<2x4xf32>) -> ()
    }) {operandSegmentSizes = array<i32: 1, 1, 1>, reverse = false, steps = 3 : i64} : (tensor<3x2x4xf32>, tensor<2x4xf32>, tensor<4x4xf32>) -> (tensor<2x4xf32>, tensor<3x2x4xf32>)
    "func.return"(%0#0, %0#1) : (tensor<2x4xf32>, tensor<3x2x4xf32>) -> ()
  }) {arg_names = ["x", "first", "w"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<4x2xf32>, tensor<2x3xi64>, tensor<2x3x2xf32>) -> tensor<4x2xf32>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<4x2xf32>, %arg1: tensor<2x3xi64>, %arg2: tensor<2x3x2xf32>):
    %0 = "polyreme.tensor.scatter"(%arg0, %arg1, %arg2) {axis = 0 : i64, fn = "add"} : (tensor<4x2xf32>, tensor<2x3xi64>, tensor<2x3x2xf32>) -> tensor<4x2xf32>
    "func.return"(%0) : (tensor<4x2xf32>) -> ()
  }) {arg_names = ["x", "i", "u"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x2xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>):
    %0 = "polyreme.tensor.slice"(%arg0) {starts = [0, 1], stops = [#polyreme.size<"N">, 4], strides = [1, 2]} : (tensor<?x4xf32, ["N"]>) -> tensor<?x2xf32, ["N"]>
    "func.return"(%0) : (tensor<?x2xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>) -> tensor<4x?xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>):
    %0 = "polyreme.tensor.transpose"(%arg0) {perm = [1, 0]} : (tensor<?x4xf32, ["N"]>) -> tensor<4x?xf32, ["N"]>
    "func.return"(%0) : (tensor<4x?xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x9xf32, ["N"]>) -> tensor<?x4x3xf32, ["N"]>, sym_name = "example"}> ({
  ^bb0(%arg0: tensor<?x9xf32, ["N"]>):
    %0 = "polyreme.tensor.window"(%arg0) {axes = [1], dilations = [1], sizes = [3], strides = [2]} : (tensor<?x9xf32, ["N"]>) -> tensor<?x4x3xf32, ["N"]>
    "func.return"(%0) : (tensor<?x4x3xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<4xf32>) -> tensor<4xf32>, sym_name = "main"}> ({
  ^bb0(%arg0: tensor<4xf32>):
    %0 = "polyreme.tensor.fused"(%arg0) ({
    ^bb0(%arg1: tensor<4xf32>):
      %1 = "polyreme.tensor.map"(%arg1) {fn = "exp"} : (tensor<4xf32>) -> tensor<4xf32>
      "polyreme.tensor.yield"(%1) : (tensor<4xf32>) -> ()
    }) : (tensor<4xf32>) -> tensor<4xf32>
    "func.return"(%0) : (tensor<4xf32>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<1xf32>) -> tensor<1xf32>, sym_name = "main"}> ({
  ^bb0(%arg0: tensor<1xf32>):
    %0 = "polyreme.nn.tanh"(%arg0) : (tensor<1xf32>) -> tensor<1xf32>
    %1 = "polyreme.nn.tanh"(%0) : (tensor<1xf32>) -> tensor<1xf32>
    "func.return"(%1) : (tensor<1xf32>) -> ()
  }) {arg_names = ["x0"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<?x4xf32, ["N"]>, sym_name = "main"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>, %arg1: tensor<4x4xf32>, %arg2: tensor<4x4xf32>):
    %0 = "polyreme.nn.full"() {dtype = f32, value = 1.500000e+00 : f64} : () -> tensor<f32>
    %1 = "polyreme.nn.matmul"(%arg0, %arg1) {transpose_x = false, transpose_y = false} : (tensor<?x4xf32, ["N"]>, tensor<4x4xf32>) -> tensor<?x4xf32, ["N"]>
    %2 = "polyreme.nn.erf"(%0) : (tensor<f32>) -> tensor<f32>
    %3 = "polyreme.nn.sum"(%0) {keepdims = false} : (tensor<f32>) -> tensor<f32>
    %4 = "polyreme.nn.sigmoid"(%1) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    %5 = "polyreme.nn.not_equal"(%arg1, %arg2) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xi1>
    %6 = "polyreme.nn.where"(%5, %arg2, %arg1) : (tensor<4x4xi1>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %7 = "polyreme.nn.log_softmax"(%1) {axis = 1 : i64} : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%7) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x0", "w1", "w2"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x3x1xf32, ["N"]>) -> (tensor<?x4x5xf32, ["2*N"]>, tensor<?x4x5xf32, ["N"]>), sym_name = "main"}> ({
  ^bb0(%arg0: tensor<?x3x1xf32, ["N"]>):
    %0 = "polyreme.nn.full"() {dtype = f32, shape = [#polyreme.size<"N">, 4, 5], value = -2.500000e-01 : f64} : () -> tensor<?x4x5xf32, ["N"]>
    %1 = "polyreme.nn.concat"(%0, %0) {axis = 0 : i64} : (tensor<?x4x5xf32, ["N"]>, tensor<?x4x5xf32, ["N"]>) -> tensor<?x4x5xf32, ["2*N"]>
    %2 = "polyreme.nn.constant"() {value = dense<2> : tensor<i64>} : () -> tensor<i64>
    %3 = "polyreme.nn.gather"(%0, %2) {axis = 1 : i64} : (tensor<?x4x5xf32, ["N"]>, tensor<i64>) -> tensor<?x5xf32, ["N"]>
    %4 = "polyreme.nn.scatter_add"(%3, %2) {axis = 1 : i64, size = 4 : i64} : (tensor<?x5xf32, ["N"]>, tensor<i64>) -> tensor<?x4x5xf32, ["N"]>
    "func.return"(%1, %4) : (tensor<?x4x5xf32, ["2*N"]>, tensor<?x4x5xf32, ["N"]>) -> ()
  }) {arg_names = ["x0"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<1xf32>) -> tensor<1xf32>, sym_name = "main"}> ({
  ^bb0(%arg0: tensor<1xf32>):
    %0 = "polyreme.nn.tanh"(%arg0) : (tensor<1xf32>) -> tensor<1xf32>
    %1 = "polyreme.nn.tanh"(%0) : (tensor<1xf32>) -> tensor<1xf32>
    "func.return"(%1) : (tensor<1xf32>) -> ()
  }) {arg_names = ["x0"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>) -> tensor<1x5x4xf32>, sym_name = "main"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>):
    %0:2 = "polyreme.dist.all_reduce_start"(%arg0, %arg0) {bucket = 3 : i64, reduce = "sum"} : (tensor<?x4xf32, ["N"]>, tensor<?x4xf32, ["N"]>) -> (!polyreme.pending<?x4xf32, ["N"]>, !polyreme.pending<?x4xf32, ["N"]>)
    %1 = "polyreme.nn.leaky_relu"(%arg0) {alpha = 1.000000e-02 : f64} : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    %2:2 = "polyreme.dist.wait"(%0#0, %0#1) : (!polyreme.pending<?x4xf32, ["N"]>, !polyreme.pending<?x4xf32, ["N"]>) -> (tensor<?x4xf32, ["N"]>, tensor<?x4xf32, ["N"]>)
    %3 = "polyreme.nn.max"(%2#1) {axis = [0, 1], keepdims = true} : (tensor<?x4xf32, ["N"]>) -> tensor<1x1xf32>
    %4 = "polyreme.nn.pad"(%3) {padding = [2, 2, 1, 2], value = 1.500000e+00 : f64} : (tensor<1x1xf32>) -> tensor<5x4xf32>
    %5 = "polyreme.dist.all_gather"(%3) {ranks = 1 : i64} : (tensor<1x1xf32>) -> tensor<1x1x1xf32>
    %6 = "polyreme.nn.full"() {dtype = f32, value = 8.000000e+00 : f64} : () -> tensor<f32>
    %7 = "polyreme.nn.mul"(%arg0, %6) : (tensor<?x4xf32, ["N"]>, tensor<f32>) -> tensor<?x4xf32, ["N"]>
    %8 = "polyreme.nn.cast"(%7) {dtype = i64} : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xi64, ["N"]>
    %9 = "polyreme.nn.full"() {dtype = i64, value = -3 : i64} : () -> tensor<i64>
    %10 = "polyreme.nn.mul"(%8, %9) : (tensor<?x4xi64, ["N"]>, tensor<i64>) -> tensor<?x4xi64, ["N"]>
    %11 = "polyreme.nn.cast"(%10) {dtype = f32} : (tensor<?x4xi64, ["N"]>) -> tensor<?x4xf32, ["N"]>
    %12 = "polyreme.nn.reshape"(%3) {shape = [1]} : (tensor<1x1xf32>) -> tensor<1xf32>
    %13 = "polyreme.dist.all_gather"(%4) {ranks = 1 : i64} : (tensor<5x4xf32>) -> tensor<1x5x4xf32>
    "func.return"(%13) : (tensor<1x5x4xf32>) -> ()
  }) {arg_names = ["x0"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4x4x5xf32, ["N"]>, tensor<?x4x4x5xf32, ["N"]>) -> tensor<1x?x4x4x5xf32, ["N"]>, sym_name = "main"}> ({
  ^bb0(%arg0: tensor<?x4x4x5xf32, ["N"]>, %arg1: tensor<?x4x4x5xf32, ["N"]>):
    %0 = "polyreme.nn.max_pool"(%arg0) {ceil_mode = false, kernel = [3, 3], padding = [0, 0, 1, 1], strides = [1, 1]} : (tensor<?x4x4x5xf32, ["N"]>) -> tensor<?x4x2x5xf32, ["N"]>
    %1 = "polyreme.nn.erf"(%arg0) : (tensor<?x4x4x5xf32, ["N"]>) -> tensor<?x4x4x5xf32, ["N"]>
    %2 = "polyreme.nn.log_softmax"(%arg0) {axis = 0 : i64} : (tensor<?x4x4x5xf32, ["N"]>) -> tensor<?x4x4x5xf32, ["N"]>
    %3 = "polyreme.dist.all_gather"(%arg0) {ranks = 1 : i64} : (tensor<?x4x4x5xf32, ["N"]>) -> tensor<1x?x4x4x5xf32, ["N"]>
    "func.return"(%3) : (tensor<1x?x4x4x5xf32, ["N"]>) -> ()
  }) {arg_names = ["x0", "x1"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<1xf32>) -> tensor<1xf32>, sym_name = "main"}> ({
  ^bb0(%arg0: tensor<1xf32>):
    %0 = "polyreme.tensor.map"(%arg0) {fn = "tanh"} : (tensor<1xf32>) -> tensor<1xf32>
    %1 = "polyreme.tensor.map"(%0) {fn = "tanh"} : (tensor<1xf32>) -> tensor<1xf32>
    "func.return"(%1) : (tensor<1xf32>) -> ()
  }) {arg_names = ["x0"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>, tensor<?xf32, ["N"]>) -> tensor<?xf32, ["N"]>, sym_name = "main"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>, %arg1: tensor<?xf32, ["N"]>):
    %0 = "polyreme.tensor.constant"() {value = dense<2> : tensor<i64>} : () -> tensor<i64>
    %1 = "polyreme.tensor.gather"(%arg0, %0) {axis = 1 : i64} : (tensor<?x4xf32, ["N"]>, tensor<i64>) -> tensor<?xf32, ["N"]>
    %2 = "polyreme.tensor.argsort"(%arg0) {descending = false} : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xi64, ["N"]>
    %3 = "polyreme.tensor.map"(%2) {dtype = f32, fn = "cast"} : (tensor<?x4xi64, ["N"]>) -> tensor<?x4xf32, ["N"]>
    %4 = "polyreme.tensor.map"(%1, %1) {fn = "max"} : (tensor<?xf32, ["N"]>, tensor<?xf32, ["N"]>) -> tensor<?xf32, ["N"]>
    %5 = "polyreme.tensor.map"(%3) {fn = "tanh"} : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    %6 = "polyreme.tensor.map"(%1, %arg1) {fn = "min"} : (tensor<?xf32, ["N"]>, tensor<?xf32, ["N"]>) -> tensor<?xf32, ["N"]>
    %7 = "polyreme.tensor.cumulate"(%1) {axis = 0 : i64, fn = "min"} : (tensor<?xf32, ["N"]>) -> tensor<?xf32, ["N"]>
    "func.return"(%7) : (tensor<?xf32, ["N"]>) -> ()
  }) {arg_names = ["x0", "w1"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x3x1xf32, ["N"]>) -> (tensor<?x3xf32, ["N"]>, tensor<?x7xf32, ["N+max(0, N-1)+1"]>), sym_name = "main"}> ({
  ^bb0(%arg0: tensor<?x3x1xf32, ["N"]>):
    %0 = "polyreme.tensor.constant"() {value = dense<0> : tensor<i64>} : () -> tensor<i64>
    %1 = "polyreme.tensor.gather"(%arg0, %0) {axis = 2 : i64} : (tensor<?x3x1xf32, ["N"]>, tensor<i64>) -> tensor<?x3xf32, ["N"]>
    %2 = "polyreme.tensor.reduce"(%1) {axes = [], fn = "min", keepdims = true} : (tensor<?x3xf32, ["N"]>) -> tensor<?x3xf32, ["N"]>
    %3 = "polyreme.tensor.pad"(%2) {high = [1, 0], interior = [1, 2], low = [0, 0], value = -1.500000e+00 : f64} : (tensor<?x3xf32, ["N"]>) -> tensor<?x7xf32, ["N+max(0, N-1)+1"]>
    "func.return"(%2, %3) : (tensor<?x3xf32, ["N"]>, tensor<?x7xf32, ["N+max(0, N-1)+1"]>) -> ()
  }) {arg_names = ["x0"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<1xf32>) -> tensor<1xf32>, sym_name = "main"}> ({
  ^bb0(%arg0: tensor<1xf32>):
    %0 = "polyreme.tensor.fused"(%arg0) ({
    ^bb0(%arg1: tensor<1xf32>):
      %2 = "polyreme.tensor.map"(%arg1) {fn = "tanh"} : (tensor<1xf32>) -> tensor<1xf32>
      "polyreme.tensor.yield"(%2) : (tensor<1xf32>) -> ()
    }) : (tensor<1xf32>) -> tensor<1xf32>
    %1 = "polyreme.tensor.map"(%0) {fn = "tanh"} : (tensor<1xf32>) -> tensor<1xf32>
    "func.return"(%1) : (tensor<1xf32>) -> ()
  }) {arg_names = ["x0"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<?x4xf32, ["N"]>, tensor<?xf32, ["N"]>) -> tensor<?xf32, ["N"]>, sym_name = "main"}> ({
  ^bb0(%arg0: tensor<?x4xf32, ["N"]>, %arg1: tensor<?xf32, ["N"]>):
    %0 = "polyreme.tensor.constant"() {value = dense<2> : tensor<i64>} : () -> tensor<i64>
    %1 = "polyreme.tensor.gather"(%arg0, %0) {axis = 1 : i64} : (tensor<?x4xf32, ["N"]>, tensor<i64>) -> tensor<?xf32, ["N"]>
    %2 = "polyreme.tensor.fused"(%arg0) ({
    ^bb0(%arg2: tensor<?x4xf32, ["N"]>):
      %8 = "polyreme.tensor.argsort"(%arg2) {descending = false} : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xi64, ["N"]>
      "polyreme.tensor.yield"(%8) : (tensor<?x4xi64, ["N"]>) -> ()
    }) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xi64, ["N"]>
    %3 = "polyreme.tensor.map"(%2) {dtype = f32, fn = "cast"} : (tensor<?x4xi64, ["N"]>) -> tensor<?x4xf32, ["N"]>
    %4 = "polyreme.tensor.map"(%1, %1) {fn = "max"} : (tensor<?xf32, ["N"]>, tensor<?xf32, ["N"]>) -> tensor<?xf32, ["N"]>
    %5 = "polyreme.tensor.map"(%3) {fn = "tanh"} : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    %6 = "polyreme.tensor.map"(%1, %arg1) {fn = "min"} : (tensor<?xf32, ["N"]>, tensor<?xf32, ["N"]>) -> tensor<?xf32, ["N"]>
    %7 = "polyreme.tensor.cumulate"(%1) {axis = 0 : i64, fn = "min"} : (tensor<?xf32, ["N"]>) -> tensor<?xf32, ["N"]>
    "func.return"(%7) : (tensor<?xf32, ["N"]>) -> ()
  }) {arg_names = ["x0", "w1"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<4x5x2x2xf32>, tensor<3xf32>, tensor<3x3x2x4xf32>, tensor<4x5x2x2xf32>) -> (tensor<3xf32>, tensor<5x4xf32>), sym_name = "main"}> ({
  ^bb0(%arg0: tensor<4x5x2x2xf32>, %arg1: tensor<3xf32>, %arg2: tensor<3x3x2x4xf32>, %arg3: tensor<4x5x2x2xf32>):
    %0 = "polyreme.tensor.map"(%arg0, %arg0) {fn = "mul"} : (tensor<4x5x2x2xf32>, tensor<4x5x2x2xf32>) -> tensor<4x5x2x2xf32>
    %1 = "polyreme.tensor.transpose"(%0) {perm = [2, 0, 1, 3]} : (tensor<4x5x2x2xf32>) -> tensor<2x4x5x2xf32>
    %2 = "polyreme.tensor.reverse"(%1) {axes = []} : (tensor<2x4x5x2xf32>) -> tensor<2x4x5x2xf32>
    %3 = "polyreme.tensor.iota"() {axis = 0 : i64, dtype = f32, shape = [4, 5]} : () -> tensor<4x5xf32>
    %4 = "polyreme.tensor.reduce"(%arg3) {axes = [], fn = "max", keepdims = true} : (tensor<4x5x2x2xf32>) -> tensor<4x5x2x2xf32>
    %5 = "polyreme.tensor.window"(%arg1) {axes = [0], dilations = [1], sizes = [1], strides = [1]} : (tensor<3xf32>) -> tensor<3x1xf32>
    %6 = "polyreme.tensor.fused"(%5) ({
    ^bb0(%arg4: tensor<3x1xf32>):
      %8 = "polyreme.tensor.reduce"(%arg4) {axes = [1], fn = "max", keepdims = false} : (tensor<3x1xf32>) -> tensor<3xf32>
      "polyreme.tensor.yield"(%8) : (tensor<3xf32>) -> ()
    }) : (tensor<3x1xf32>) -> tensor<3xf32>
    %7 = "polyreme.tensor.transpose"(%3) {perm = [1, 0]} : (tensor<4x5xf32>) -> tensor<5x4xf32>
    "func.return"(%6, %7) : (tensor<3xf32>, tensor<5x4xf32>) -> ()
  }) {arg_names = ["x0", "x1", "x2", "x3"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (!polyreme.buffer<1xf32>, !polyreme.buffer<f32>) -> (), sym_name = "main"}> ({
  ^bb0(%arg3: !polyreme.buffer<1xf32>, %arg4: !polyreme.buffer<f32>):
    "polyreme.kernel.call"(%arg3, %arg4) {callee = @k2} : (!polyreme.buffer<1xf32>, !polyreme.buffer<f32>) -> ()
    "func.return"() : () -> ()
  }) {arg_names = ["x0", "y0"], arg_roles = ["input", "output"]} : () -> ()
  "func.func"() <{function_type = (!polyreme.buffer<1xf32>, !polyreme.buffer<f32>) -> (), sym_name = "k2"}> ({
  ^bb0(%arg0: !polyreme.buffer<1xf32>, %arg1: !polyreme.buffer<f32>):
    %0 = "polyreme.kernel.constant"() {dtype = index, value = 1 : i64} : () -> index
    %1 = "polyreme.kernel.constant"() {dtype = index, value = 0 : i64} : () -> index
    %2 = "polyreme.kernel.constant"() {dtype = index, value = 0 : i64} : () -> index
    %3 = "polyreme.kernel.apply"(%0, %2) {fn = "add"} : (index, index) -> index
    %4 = "polyreme.kernel.constant"() {dtype = index, value = 1 : i64} : () -> index
    %5 = "polyreme.kernel.apply"(%3, %4) {fn = "div"} : (index, index) -> index
    "polyreme.kernel.for"(%1, %5) ({
    ^bb0(%arg2: index):
      %6 = "polyreme.kernel.constant"() {dtype = index, value = 1 : i64} : () -> index
      %7 = "polyreme.kernel.apply"(%arg2, %6) {fn = "mul"} : (index, index) -> index
      %8 = "polyreme.kernel.apply"(%0, %7) {fn = "sub"} : (index, index) -> index
      %9 = "polyreme.kernel.lane_mask"(%8) {lanes = 1 : i64} : (index) -> i1
      %10 = "polyreme.kernel.load"(%arg0, %7, %9) {lanes = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1>} : (!polyreme.buffer<1xf32>, index, i1) -> f32
      "polyreme.kernel.store"(%10, %arg1, %7, %9) {operandSegmentSizes = array<i32: 1, 1, 1, 1>, streaming = false} : (f32, !polyreme.buffer<f32>, index, i1) -> ()
      "polyreme.kernel.yield"() : () -> ()
    }) {operandSegmentSizes = array<i32: 1, 1, 0>, step = 1 : i64} : (index, index) -> ()
    "func.return"() : () -> ()
  }) {arg_names = ["a0", "out"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (!polyreme.buffer<?x5xf32, ["N"]>, !polyreme.buffer<f32>, !polyreme.buffer<f32>) -> (), sym_name = "main"}> ({
  ^bb0(%arg14: !polyreme.buffer<?x5xf32, ["N"]>, %arg15: !polyreme.buffer<f32>, %arg16: !polyreme.buffer<f32>):
    %38 = "polyreme.kernel.alloc"() {dtype = f32, of_thread = 0 : i64, shape = [], space = "arena"} : () -> !polyreme.buffer<f32>
    %39 = "polyreme.kernel.view"(%arg14) {operandSegmentSizes = array<i32: 1, 0>, shape = [#polyreme.size<"5*N">]} : (!polyreme.buffer<?x5xf32, ["N"]>) -> !polyreme.buffer<?xf32, ["5*N"]>
    "polyreme.kernel.call"(%arg14, %39, %38) {callee = @k1} : (!polyreme.buffer<?x5xf32, ["N"]>, !polyreme.buffer<?xf32, ["5*N"]>, !polyreme.buffer<f32>) -> ()
    %40 = "polyreme.kernel.view"(%arg14) {operandSegmentSizes = array<i32: 1, 0>, shape = [#polyreme.size<"5*N">]} : (!polyreme.buffer<?x5xf32, ["N"]>) -> !polyreme.buffer<?xf32, ["5*N"]>
    %41 = "polyreme.kernel.size"() {value = 1 : i64} : () -> index
    "polyreme.kernel.call"(%40, %38, %arg15, %41) {callee = @k2} : (!polyreme.buffer<?xf32, ["5*N"]>, !polyreme.buffer<f32>, !polyreme.buffer<f32>, index) -> ()
    "polyreme.kernel.call"(%arg15, %arg16) {callee = @k3} : (!polyreme.buffer<f32>, !polyreme.buffer<f32>) -> ()
    "func.return"() : () -> ()
  }) {arg_names = ["x0", "y0", "y1"], arg_roles = ["input", "output", "output"]} : () -> ()
  "func.func"() <{function_type = (!polyreme.buffer<?x5xf32, ["N"]>, !polyreme.buffer<?xf32, ["5*N"]>, !polyreme.buffer<f32>) -> (), sym_name = "k1"}> ({
  ^bb0(%arg8: !polyreme.buffer<?x5xf32, ["N"]>, %arg9: !polyreme.buffer<?xf32, ["5*N"]>, %arg10: !polyreme.buffer<f32>):
    %26 = "polyreme.kernel.constant"() {dtype = index, value = 1 : i64} : () -> index
    %27 = "polyreme.kernel.constant"() {dtype = f32, value = 0xFFF0000000000000 : f64} : () -> f32
    %28 = "polyreme.kernel.constant"() {dtype = index, value = 0 : i64} : () -> index
    %29 = "polyreme.kernel.size"() {value = #polyreme.size<"5*N">} : () -> index
    %30 = "polyreme.kernel.for"(%28, %29, %27) ({
    ^bb0(%arg12: index, %arg13: f32):
      %36 = "polyreme.kernel.load"(%arg9, %arg12) {lanes = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 0>} : (!polyreme.buffer<?xf32, ["5*N"]>, index) -> f32
      %37 = "polyreme.kernel.apply"(%arg13, %36) {fn = "max"} : (f32, f32) -> f32
      "polyreme.kernel.yield"(%37) : (f32) -> ()
    }) {operandSegmentSizes = array<i32: 1, 1, 1>, step = 1 : i64} : (index, index, f32) -> f32
    "polyreme.kernel.parallel"(%26) ({
    ^bb0(%arg11: index):
      %31 = "polyreme.kernel.size"() {value = #polyreme.size<"5*N">} : () -> index
      %32 = "polyreme.kernel.apply"(%arg11, %31) {fn = "mod"} : (index, index) -> index
      %33 = "polyreme.kernel.load"(%arg9, %32) {lanes = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 0>} : (!polyreme.buffer<?xf32, ["5*N"]>, index) -> f32
      %34 = "polyreme.kernel.broadcast"(%33) {lanes = 1 : i64} : (f32) -> f32
      %35 = "polyreme.kernel.apply"(%30, %34) {fn = "add"} : (f32, f32) -> f32
      "polyreme.kernel.store"(%35, %arg10, %arg11) {operandSegmentSizes = array<i32: 1, 1, 1, 0>, streaming = false} : (f32, !polyreme.buffer<f32>, index) -> ()
      "polyreme.kernel.yield"() : () -> ()
    }) {grain = 1 : i64} : (index) -> ()
    "func.return"() : () -> ()
  }) {arg_names = ["a0", "a1", "out"]} : () -> ()
  "func.func"() <{function_type = (!polyreme.buffer<?xf32, ["5*N"]>, !polyreme.buffer<f32>, !polyreme.buffer<f32>, index) -> (), sym_name = "k2"}> ({
  ^bb0(%arg3: !polyreme.buffer<?xf32, ["5*N"]>, %arg4: !polyreme.buffer<f32>, %arg5: !polyreme.buffer<f32>, %arg6: index):
    %18 = "polyreme.kernel.constant"() {dtype = index, value = 0 : i64} : () -> index
    %19 = "polyreme.kernel.constant"() {dtype = index, value = 1 : i64} : () -> index
    %20 = "polyreme.kernel.apply"(%arg6, %19) {fn = "sub"} : (index, index) -> index
    "polyreme.kernel.for"(%18, %arg6) ({
    ^bb0(%arg7: index):
      %21 = "polyreme.kernel.apply"(%arg6, %arg7) {fn = "sub"} : (index, index) -> index
      %22 = "polyreme.kernel.lane_mask"(%21) {lanes = 1 : i64} : (index) -> i1
      %23 = "polyreme.kernel.load"(%arg4, %arg7, %22) {lanes = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1>} : (!polyreme.buffer<f32>, index, i1) -> f32
      %24 = "polyreme.kernel.apply"(%20, %arg7) {fn = "sub"} : (index, index) -> index
      %25 = "polyreme.kernel.broadcast"(%24) {lanes = 1 : i64} : (index) -> index
      "polyreme.kernel.scatter"(%23, %arg5, %25, %22) {operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (f32, !polyreme.buffer<f32>, index, i1) -> ()
      "polyreme.kernel.yield"() : () -> ()
    }) {operandSegmentSizes = array<i32: 1, 1, 0>, step = 1 : i64} : (index, index) -> ()
    "func.return"() : () -> ()
  }) {arg_names = ["a0", "a1", "out", "n"]} : () -> ()
  "func.func"() <{function_type = (!polyreme.buffer<f32>, !polyreme.buffer<f32>) -> (), sym_name = "k3"}> ({
  ^bb0(%arg0: !polyreme.buffer<f32>, %arg1: !polyreme.buffer<f32>):
    %0 = "polyreme.kernel.constant"() {dtype = index, value = 1 : i64} : () -> index
    %1 = "polyreme.kernel.constant"() {dtype = index, value = 0 : i64} : () -> index
    %2 = "polyreme.kernel.constant"() {dtype = index, value = 1 : i64} : () -> index
    %3 = "polyreme.kernel.apply"(%0, %2) {fn = "add"} : (index, index) -> index
    %4 = "polyreme.kernel.constant"() {dtype = index, value = 2 : i64} : () -> index
    %5 = "polyreme.kernel.apply"(%3, %4) {fn = "div"} : (index, index) -> index
    "polyreme.kernel.for"(%1, %5) ({
    ^bb0(%arg2: index):
      %6 = "polyreme.kernel.constant"() {dtype = index, value = 2 : i64} : () -> index
      %7 = "polyreme.kernel.apply"(%arg2, %6) {fn = "mul"} : (index, index) -> index
      %8 = "polyreme.kernel.apply"(%0, %7) {fn = "sub"} : (index, index) -> index
      %9 = "polyreme.kernel.lane_mask"(%8) {lanes = 2 : i64} : (index) -> vector<2xi1>
      %10 = "polyreme.kernel.constant"() {dtype = index, value = 1 : i64} : () -> index
      %11 = "polyreme.kernel.apply"(%7, %10) {fn = "mod"} : (index, index) -> index
      %12 = "polyreme.kernel.load"(%arg0, %11) {lanes = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 0>} : (!polyreme.buffer<f32>, index) -> f32
      %13 = "polyreme.kernel.broadcast"(%12) {lanes = 2 : i64} : (f32) -> vector<2xf32>
      %14 = "polyreme.kernel.apply"(%13) {fn = "sigmoid"} : (vector<2xf32>) -> vector<2xf32>
      %15 = "polyreme.kernel.apply"(%14) {fn = "tanh"} : (vector<2xf32>) -> vector<2xf32>
      %16 = "polyreme.kernel.load"(%arg0, %7, %9) {lanes = 2 : i64, operandSegmentSizes = array<i32: 1, 1, 1>} : (!polyreme.buffer<f32>, index, vector<2xi1>) -> vector<2xf32>
      %17 = "polyreme.kernel.apply"(%15, %16) {fn = "mul"} : (vector<2xf32>, vector<2xf32>) -> vector<2xf32>
      "polyreme.kernel.store"(%17, %arg1, %7, %9) {operandSegmentSizes = array<i32: 1, 1, 1, 1>, streaming = false} : (vector<2xf32>, !polyreme.buffer<f32>, index, vector<2xi1>) -> ()
      "polyreme.kernel.yield"() : () -> ()
    }) {operandSegmentSizes = array<i32: 1, 1, 0>, step = 1 : i64} : (index, index) -> ()
    "func.return"() : () -> ()
  }) {arg_names = ["a0", "out"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{function_type = (!polyreme.buffer<2x3xf32>, !polyreme.buffer<f32>, !polyreme.buffer<5x4xf32>) -> (), sym_name = "main"}> ({
  ^bb0(%arg16: !polyreme.buffer<2x3xf32>, %arg17: !polyreme.buffer<f32>, %arg18: !polyreme.buffer<5x4xf32>):
    %65 = "polyreme.kernel.data"() {value = dense<[1.375000e+00, 1.125000e+00, 1.875000e+00]> : tensor<3xf32>} : () -> !polyreme.buffer<3xf32>
    %66 = "polyreme.kernel.alloc"() {dtype = f32, of_thread = 0 : i64, shape = [], space = "arena"} : () -> !polyreme.buffer<f32>
    %67 = "polyreme.kernel.view"(%65) {operandSegmentSizes = array<i32: 1, 0>, shape = [3]} : (!polyreme.buffer<3xf32>) -> !polyreme.buffer<3xf32>
    %68 = "polyreme.kernel.view"(%65) {operandSegmentSizes = array<i32: 1, 0>, shape = [3]} : (!polyreme.buffer<3xf32>) -> !polyreme.buffer<3xf32>
    "polyreme.kernel.call"(%67, %68, %66) {callee = @k0} : (!polyreme.buffer<3xf32>, !polyreme.buffer<3xf32>, !polyreme.buffer<f32>) -> ()
    %69 = "polyreme.kernel.alloc"() {dtype = f32, of_thread = 0 : i64, shape = [4, 2], space = "arena"} : () -> !polyreme.buffer<4x2xf32>
    "polyreme.kernel.call"(%arg16, %66, %69) {callee = @k1} : (!polyreme.buffer<2x3xf32>, !polyreme.buffer<f32>, !polyreme.buffer<4x2xf32>) -> ()
    "polyreme.kernel.call"(%66, %arg17, %arg18) {callee = @k2} : (!polyreme.buffer<f32>, !polyreme.buffer<f32>, !polyreme.buffer<5x4xf32>) -> ()
    "func.return"() : () -> ()
  }) {arg_names = ["x0", "x1", "y0"], arg_roles = ["input", "input", "output"]} : () -> ()
  "func.func"() <{function_type = (!polyreme.buffer<3xf32>, !polyreme.buffer<3xf32>, !polyreme.buffer<f32>) -> (), sym_name = "k0"}> ({
  ^bb0(%arg10: !polyreme.buffer<3xf32>, %arg11: !polyreme.buffer<3xf32>, %arg12: !polyreme.buffer<f32>):
    %53 = "polyreme.kernel.size"() {value = 1 : i64} : () -> index
    %54 = "polyreme.kernel.constant"() {dtype = f32, value = 0x7FF0000000000000 : f64} : () -> f32
    %55 = "polyreme.kernel.constant"() {dtype = index, value = 0 : i64} : () -> index
    %56 = "polyreme.kernel.size"() {value = 3 : i64} : () -> index
    %57 = "polyreme.kernel.for"(%55, %56, %54) ({
    ^bb0(%arg14: index, %arg15: f32):
      %63 = "polyreme.kernel.load"(%arg11, %arg14) {lanes = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 0>} : (!polyreme.buffer<3xf32>, index) -> f32
      %64 = "polyreme.kernel.apply"(%arg15, %63) {fn = "min"} : (f32, f32) -> f32
      "polyreme.kernel.yield"(%64) : (f32) -> ()
    }) {operandSegmentSizes = array<i32: 1, 1, 1>, step = 1 : i64} : (index, index, f32) -> f32
    "polyreme.kernel.parallel"(%53) ({
    ^bb0(%arg13: index):
      %58 = "polyreme.kernel.size"() {value = 3 : i64} : () -> index
      %59 = "polyreme.kernel.apply"(%arg13, %58) {fn = "mod"} : (index, index) -> index
      %60 = "polyreme.kernel.load"(%arg11, %59) {lanes = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 0>} : (!polyreme.buffer<3xf32>, index) -> f32
      %61 = "polyreme.kernel.broadcast"(%60) {lanes = 1 : i64} : (f32) -> f32
      %62 = "polyreme.kernel.apply"(%57, %61) {fn = "add"} : (f32, f32) -> f32
      "polyreme.kernel.store"(%62, %arg12, %arg13) {operandSegmentSizes = array<i32: 1, 1, 1, 0>, streaming = false} : (f32, !polyreme.buffer<f32>, index) -> ()
      "polyreme.kernel.yield"() : () -> ()
    }) {grain = 1 : i64} : (index) -> ()
    "func.return"() : () -> ()
  }) {arg_names = ["a0", "a1", "out"]} : () -> ()
  "func.func"() <{function_type = (!polyreme.buffer<2x3xf32>, !polyreme.buffer<f32>, !polyreme.buffer<4x2xf32>) -> (), sym_name = "k1"}> ({
  ^bb0(%arg4: !polyreme.buffer<2x3xf32>, %arg5: !polyreme.buffer<f32>, %arg6: !polyreme.buffer<4x2xf32>):
    %20 = "polyreme.kernel.size"() {value = 8 : i64} : () -> index
    %21 = "polyreme.kernel.constant"() {dtype = index, value = 3 : i64} : () -> index
    %22 = "polyreme.kernel.apply"(%20, %21) {fn = "add"} : (index, index) -> index
    %23 = "polyreme.kernel.constant"() {dtype = index, value = 4 : i64} : () -> index
    %24 = "polyreme.kernel.apply"(%22, %23) {fn = "div"} : (index, index) -> index
    "polyreme.kernel.parallel"(%24) ({
    ^bb0(%arg7: index):
      %25 = "polyreme.kernel.constant"() {dtype = index, value = 4 : i64} : () -> index
      %26 = "polyreme.kernel.apply"(%arg7, %25) {fn = "mul"} : (index, index) -> index
      %27 = "polyreme.kernel.alloc"() {dtype = f32, of_thread = 0 : i64, shape = [4], space = "local"} : () -> !polyreme.buffer<4xf32>
      %28 = "polyreme.kernel.constant"() {dtype = index, value = 0 : i64} : () -> index
      %29 = "polyreme.kernel.constant"() {dtype = index, value = 4 : i64} : () -> index
      "polyreme.kernel.for"(%28, %29) ({
      ^bb0(%arg9: index):
        %37 = "polyreme.kernel.apply"(%26, %arg9) {fn = "add"} : (index, index) -> index
        %38 = "polyreme.kernel.constant"() {dtype = index, value = 1 : i64} : () -> index
        %39 = "polyreme.kernel.apply"(%20, %38) {fn = "sub"} : (index, index) -> index
        %40 = "polyreme.kernel.apply"(%37, %39) {fn = "min"} : (index, index) -> index
        %41 = "polyreme.kernel.constant"() {dtype = index, value = 1 : i64} : () -> index
        %42 = "polyreme.kernel.apply"(%40, %41) {fn = "mod"} : (index, index) -> index
        %43 = "polyreme.kernel.load"(%arg5, %42) {lanes = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 0>} : (!polyreme.buffer<f32>, index) -> f32
        %44 = "polyreme.kernel.broadcast"(%43) {lanes = 1 : i64} : (f32) -> f32
        %45 = "polyreme.kernel.constant"() {dtype = f32, value = 8.000000e+00 : f64} : () -> f32
        %46 = "polyreme.kernel.broadcast"(%45) {lanes = 1 : i64} : (f32) -> f32
        %47 = "polyreme.kernel.apply"(%44, %46) {fn = "mul"} : (f32, f32) -> f32
        %48 = "polyreme.kernel.apply"(%47) {dtype = i32, fn = "cast"} : (f32) -> i32
        %49 = "polyreme.kernel.constant"() {dtype = i32, value = -3 : i64} : () -> i32
        %50 = "polyreme.kernel.broadcast"(%49) {lanes = 1 : i64} : (i32) -> i32
        %51 = "polyreme.kernel.apply"(%48, %50) {fn = "sub"} : (i32, i32) -> i32
        %52 = "polyreme.kernel.apply"(%51) {dtype = f32, fn = "cast"} : (i32) -> f32
        "polyreme.kernel.store"(%52, %27, %arg9) {operandSegmentSizes = array<i32: 1, 1, 1, 0>, streaming = false} : (f32, !polyreme.buffer<4xf32>, index) -> ()
        "polyreme.kernel.yield"() : () -> ()
      }) {operandSegmentSizes = array<i32: 1, 1, 0>, step = 1 : i64} : (index, index) -> ()
      %30 = "polyreme.kernel.constant"() {dtype = index, value = 4 : i64} : () -> index
      %31 = "polyreme.kernel.apply"(%26, %30) {fn = "add"} : (index, index) -> index
      %32 = "polyreme.kernel.apply"(%31, %20) {fn = "min"} : (index, index) -> index
      "polyreme.kernel.for"(%26, %32) ({
      ^bb0(%arg8: index):
        %33 = "polyreme.kernel.constant"() {dtype = index, value = 3 : i64} : () -> index
        %34 = "polyreme.kernel.apply"(%arg8, %26) {fn = "sub"} : (index, index) -> index
        %35 = "polyreme.kernel.apply"(%33, %34) {fn = "sub"} : (index, index) -> index
        %36 = "polyreme.kernel.load"(%27, %35) {lanes = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 0>} : (!polyreme.buffer<4xf32>, index) -> f32
        "polyreme.kernel.store"(%36, %arg6, %arg8) {operandSegmentSizes = array<i32: 1, 1, 1, 0>, streaming = false} : (f32, !polyreme.buffer<4x2xf32>, index) -> ()
        "polyreme.kernel.yield"() : () -> ()
      }) {operandSegmentSizes = array<i32: 1, 1, 0>, step = 1 : i64} : (index, index) -> ()
      "polyreme.kernel.yield"() : () -> ()
    }) {grain = 1 : i64} : (index) -> ()
    "func.return"() : () -> ()
  }) {arg_names = ["a0", "a1", "out"]} : () -> ()
  "func.func"() <{function_type = (!polyreme.buffer<f32>, !polyreme.buffer<f32>, !polyreme.buffer<5x4xf32>) -> (), sym_name = "k2"}> ({
  ^bb0(%arg0: !polyreme.buffer<f32>, %arg1: !polyreme.buffer<f32>, %arg2: !polyreme.buffer<5x4xf32>):
    %0 = "polyreme.kernel.size"() {value = 20 : i64} : () -> index
    %1 = "polyreme.kernel.constant"() {dtype = index, value = 0 : i64} : () -> index
    %2 = "polyreme.kernel.constant"() {dtype = index, value = 1 : i64} : () -> index
    %3 = "polyreme.kernel.apply"(%0, %2) {fn = "add"} : (index, index) -> index
    %4 = "polyreme.kernel.constant"() {dtype = index, value = 2 : i64} : () -> index
    %5 = "polyreme.kernel.apply"(%3, %4) {fn = "div"} : (index, index) -> index
    "polyreme.kernel.for"(%1, %5) ({
    ^bb0(%arg3: index):
      %6 = "polyreme.kernel.constant"() {dtype = index, value = 2 : i64} : () -> index
      %7 = "polyreme.kernel.apply"(%arg3, %6) {fn = "mul"} : (index, index) -> index
      %8 = "polyreme.kernel.apply"(%0, %7) {fn = "sub"} : (index, index) -> index
      %9 = "polyreme.kernel.lane_mask"(%8) {lanes = 2 : i64} : (index) -> vector<2xi1>
      %10 = "polyreme.kernel.constant"() {dtype = index, value = 1 : i64} : () -> index
      %11 = "polyreme.kernel.iota"() {lanes = 2 : i64} : () -> vector<2xindex>
      %12 = "polyreme.kernel.broadcast"(%7) {lanes = 2 : i64} : (index) -> vector<2xindex>
      %13 = "polyreme.kernel.apply"(%11, %12) {fn = "add"} : (vector<2xindex>, vector<2xindex>) -> vector<2xindex>
      %14 = "polyreme.kernel.broadcast"(%10) {lanes = 2 : i64} : (index) -> vector<2xindex>
      %15 = "polyreme.kernel.apply"(%13, %14) {fn = "mod"} : (vector<2xindex>, vector<2xindex>) -> vector<2xindex>
      %16 = "polyreme.kernel.gather"(%arg1, %15, %9) {operandSegmentSizes = array<i32: 1, 1, 1>} : (!polyreme.buffer<f32>, vector<2xindex>, vector<2xi1>) -> vector<2xf32>
      %17 = "polyreme.kernel.apply"(%16) {fn = "tanh"} : (vector<2xf32>) -> vector<2xf32>
      %18 = "polyreme.kernel.apply"(%17) {fn = "cos"} : (vector<2xf32>) -> vector<2xf32>
      %19 = "polyreme.kernel.apply"(%18) {fn = "cos"} : (vector<2xf32>) -> vector<2xf32>
      "polyreme.kernel.store"(%19, %arg2, %7, %9) {operandSegmentSizes = array<i32: 1, 1, 1, 1>, streaming = false} : (vector<2xf32>, !polyreme.buffer<5x4xf32>, index, vector<2xi1>) -> ()
      "polyreme.kernel.yield"() : () -> ()
    }) {operandSegmentSizes = array<i32: 1, 1, 0>, step = 1 : i64} : (index, index) -> ()
    "func.return"() : () -> ()
  }) {arg_names = ["a0", "a1", "out"]} : () -> ()
}) : () -> ()

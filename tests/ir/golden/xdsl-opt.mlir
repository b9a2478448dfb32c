"builtin.module"() ({
  "func.func"() <{sym_name = "a_convolution_reads_the_image_as_it_stands_and_gives_channels_last", function_type = (tensor<?x3x9x9xf32, ["N"]>, tensor<32x3x3x3xf32>, tensor<1x32x1x1xf32>) -> tensor<?x32xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x3x9x9xf32, ["N"]> loc(unknown), %w: tensor<32x3x3x3xf32> loc(unknown), %c: tensor<1x32x1x1xf32> loc(unknown)):
    %v = "polyreme.tensor.window"(%x) {axes = [2 : i64, 3 : i64], sizes = [3 : i64, 3 : i64], strides = [1 : i64, 1 : i64], dilations = [1 : i64, 1 : i64]} : (tensor<?x3x9x9xf32, ["N"]>) -> tensor<?x3x7x7x3x3xf32, ["N"]> loc(fused["channels-last.tir":3:8, "channels-last.tir":3:21])
    %p = "polyreme.tensor.contract"(%v, %w) {spec = "NCabmn,OCmn->NOab"} : (tensor<?x3x7x7x3x3xf32, ["N"]>, tensor<32x3x3x3xf32>) -> tensor<?x32x7x7xf32, ["N"]> loc(fused["channels-last.tir":4:8, "channels-last.tir":4:23])
    %y = "polyreme.tensor.map"(%p, %c) {fn = "add"} : (tensor<?x32x7x7xf32, ["N"]>, tensor<1x32x1x1xf32>) -> tensor<?x32x7x7xf32, ["N"]> loc(fused["channels-last.tir":5:8, "channels-last.tir":5:18])
    %s = "polyreme.tensor.reduce"(%y) {fn = "max", axes = [2 : i64, 3 : i64], keepdims = false} : (tensor<?x32x7x7xf32, ["N"]>) -> tensor<?x32xf32, ["N"]> loc(fused["channels-last.tir":6:8, "channels-last.tir":6:21])
    "func.return"(%s) : (tensor<?x32xf32, ["N"]>) -> () loc(fused["channels-last.tir":7:3, "channels-last.tir":7:9])
  }) {arg_names = ["x", "w", "c"]} : () -> () loc(fused["channels-last.tir":2:6, "channels-last.tir":2:73])
}) : () -> () loc("channels-last.tir":0:0)
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "a_convolution_reads_the_image_as_it_stands_and_gives_channels_last", function_type = (tensor<?x3x9x9xf32, ["N"]>, tensor<32x3x3x3xf32>, tensor<1x32x1x1xf32>) -> tensor<?x32xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x3x9x9xf32, ["N"]> loc(unknown), %w: tensor<32x3x3x3xf32> loc(unknown), %c: tensor<1x32x1x1xf32> loc(unknown)):
    %v = "polyreme.tensor.window"(%x) {axes = [2 : i64, 3 : i64], sizes = [3 : i64, 3 : i64], strides = [1 : i64, 1 : i64], dilations = [1 : i64, 1 : i64]} : (tensor<?x3x9x9xf32, ["N"]>) -> tensor<?x3x7x7x3x3xf32, ["N"]> loc(fused["channels-last.tir":3:8, "channels-last.tir":3:21])
    %p = "polyreme.tensor.contract"(%v, %w) {spec = "NCabmn,OCmn->NabO"} : (tensor<?x3x7x7x3x3xf32, ["N"]>, tensor<32x3x3x3xf32>) -> tensor<?x7x7x32xf32, ["N"]> loc(fused["channels-last.tir":4:8, "channels-last.tir":4:23])
    %0 = "polyreme.tensor.reshape"(%c) {shape = [1 : i64, 1 : i64, 1 : i64, 32 : i64]} : (tensor<1x32x1x1xf32>) -> tensor<1x1x1x32xf32> loc(fused["channels-last.tir":5:8, "channels-last.tir":5:18])
    %y = "polyreme.tensor.map"(%p, %0) {fn = "add"} : (tensor<?x7x7x32xf32, ["N"]>, tensor<1x1x1x32xf32>) -> tensor<?x7x7x32xf32, ["N"]> loc(fused["channels-last.tir":5:8, "channels-last.tir":5:18])
    %s = "polyreme.tensor.reduce"(%y) {fn = "max", axes = [1 : i64, 2 : i64], keepdims = false} : (tensor<?x7x7x32xf32, ["N"]>) -> tensor<?x32xf32, ["N"]> loc(fused["channels-last.tir":6:8, "channels-last.tir":6:21])
    "func.return"(%s) : (tensor<?x32xf32, ["N"]>) -> () loc(fused["channels-last.tir":7:3, "channels-last.tir":7:9])
  }) {arg_names = ["x", "w", "c"]} : () -> () loc(fused["channels-last.tir":2:6, "channels-last.tir":2:73])
}) : () -> () loc("channels-last.tir":0:0)
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "a_look_at_single_pixels_is_a_product_with_a_row_for_each", function_type = (tensor<?x3x9x9xf32, ["N"]>, tensor<32x3x3x3xf32>, tensor<48x32x1x1xf32>) -> tensor<?x48xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x3x9x9xf32, ["N"]> loc(unknown), %w: tensor<32x3x3x3xf32> loc(unknown), %u: tensor<48x32x1x1xf32> loc(unknown)):
    %v = "polyreme.tensor.window"(%x) {axes = [2 : i64, 3 : i64], sizes = [3 : i64, 3 : i64], strides = [1 : i64, 1 : i64], dilations = [1 : i64, 1 : i64]} : (tensor<?x3x9x9xf32, ["N"]>) -> tensor<?x3x7x7x3x3xf32, ["N"]> loc(fused["channels-last.tir":2:8, "channels-last.tir":2:21])
    %p = "polyreme.tensor.contract"(%v, %w) {spec = "NCabmn,OCmn->NOab"} : (tensor<?x3x7x7x3x3xf32, ["N"]>, tensor<32x3x3x3xf32>) -> tensor<?x32x7x7xf32, ["N"]> loc(fused["channels-last.tir":3:8, "channels-last.tir":3:23])
    %q = "polyreme.tensor.window"(%p) {axes = [2 : i64, 3 : i64], sizes = [1 : i64, 1 : i64], strides = [1 : i64, 1 : i64], dilations = [1 : i64, 1 : i64]} : (tensor<?x32x7x7xf32, ["N"]>) -> tensor<?x32x7x7x1x1xf32, ["N"]> loc(fused["channels-last.tir":4:8, "channels-last.tir":4:21])
    %r = "polyreme.tensor.contract"(%q, %u) {spec = "NCabmn,OCmn->NOab"} : (tensor<?x32x7x7x1x1xf32, ["N"]>, tensor<48x32x1x1xf32>) -> tensor<?x48x7x7xf32, ["N"]> loc(fused["channels-last.tir":5:8, "channels-last.tir":5:23])
    %s = "polyreme.tensor.reduce"(%r) {fn = "max", axes = [2 : i64, 3 : i64], keepdims = false} : (tensor<?x48x7x7xf32, ["N"]>) -> tensor<?x48xf32, ["N"]> loc(fused["channels-last.tir":6:8, "channels-last.tir":6:21])
    "func.return"(%s) : (tensor<?x48xf32, ["N"]>) -> () loc(fused["channels-last.tir":7:3, "channels-last.tir":7:9])
  }) {arg_names = ["x", "w", "u"]} : () -> () loc(fused["channels-last.tir":1:6, "channels-last.tir":1:63])
}) : () -> () loc("channels-last.tir":0:0)
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "a_look_at_single_pixels_is_a_product_with_a_row_for_each", function_type = (tensor<?x3x9x9xf32, ["N"]>, tensor<32x3x3x3xf32>, tensor<48x32x1x1xf32>) -> tensor<?x48xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x3x9x9xf32, ["N"]> loc(unknown), %w: tensor<32x3x3x3xf32> loc(unknown), %u: tensor<48x32x1x1xf32> loc(unknown)):
    %v = "polyreme.tensor.window"(%x) {axes = [2 : i64, 3 : i64], sizes = [3 : i64, 3 : i64], strides = [1 : i64, 1 : i64], dilations = [1 : i64, 1 : i64]} : (tensor<?x3x9x9xf32, ["N"]>) -> tensor<?x3x7x7x3x3xf32, ["N"]> loc(fused["channels-last.tir":2:8, "channels-last.tir":2:21])
    %p = "polyreme.tensor.contract"(%v, %w) {spec = "NCabmn,OCmn->NabO"} : (tensor<?x3x7x7x3x3xf32, ["N"]>, tensor<32x3x3x3xf32>) -> tensor<?x7x7x32xf32, ["N"]> loc(fused["channels-last.tir":3:8, "channels-last.tir":3:23])
    %q = "polyreme.tensor.window"(%p) {axes = [1 : i64, 2 : i64], sizes = [1 : i64, 1 : i64], strides = [1 : i64, 1 : i64], dilations = [1 : i64, 1 : i64]} : (tensor<?x7x7x32xf32, ["N"]>) -> tensor<?x7x7x32x1x1xf32, ["N"]> loc(fused["channels-last.tir":4:8, "channels-last.tir":4:21])
    %0 = "polyreme.tensor.reshape"(%p) {shape = [#polyreme.size<"49*N">, 32 : i64]} : (tensor<?x7x7x32xf32, ["N"]>) -> tensor<?x32xf32, ["49*N"]> loc(fused["channels-last.tir":5:8, "channels-last.tir":5:23])
    %1 = "polyreme.tensor.reshape"(%u) {shape = [48 : i64, 32 : i64]} : (tensor<48x32x1x1xf32>) -> tensor<48x32xf32> loc(fused["channels-last.tir":5:8, "channels-last.tir":5:23])
    %2 = "polyreme.tensor.contract"(%0, %1) {spec = "rC,OC->rO"} : (tensor<?x32xf32, ["49*N"]>, tensor<48x32xf32>) -> tensor<?x48xf32, ["49*N"]> loc(fused["channels-last.tir":5:8, "channels-last.tir":5:23])
    %r = "polyreme.tensor.reshape"(%2) {shape = [#polyreme.size<"N">, 7 : i64, 7 : i64, 48 : i64]} : (tensor<?x48xf32, ["49*N"]>) -> tensor<?x7x7x48xf32, ["N"]> loc(fused["channels-last.tir":5:8, "channels-last.tir":5:23])
    %s = "polyreme.tensor.reduce"(%r) {fn = "max", axes = [1 : i64, 2 : i64], keepdims = false} : (tensor<?x7x7x48xf32, ["N"]>) -> tensor<?x48xf32, ["N"]> loc(fused["channels-last.tir":6:8, "channels-last.tir":6:21])
    "func.return"(%s) : (tensor<?x48xf32, ["N"]>) -> () loc(fused["channels-last.tir":7:3, "channels-last.tir":7:9])
  }) {arg_names = ["x", "w", "u"]} : () -> () loc(fused["channels-last.tir":1:6, "channels-last.tir":1:63])
}) : () -> () loc("channels-last.tir":0:0)
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "few_channels_stay_where_they_are", function_type = (tensor<?x3x9x9xf32, ["N"]>, tensor<8x3x3x3xf32>) -> tensor<?x8xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x3x9x9xf32, ["N"]> loc(unknown), %w: tensor<8x3x3x3xf32> loc(unknown)):
    %v = "polyreme.tensor.window"(%x) {axes = [2 : i64, 3 : i64], sizes = [3 : i64, 3 : i64], strides = [1 : i64, 1 : i64], dilations = [1 : i64, 1 : i64]} : (tensor<?x3x9x9xf32, ["N"]>) -> tensor<?x3x7x7x3x3xf32, ["N"]> loc(fused["channels-last.tir":2:8, "channels-last.tir":2:21])
    %p = "polyreme.tensor.contract"(%v, %w) {spec = "NCabmn,OCmn->NOab"} : (tensor<?x3x7x7x3x3xf32, ["N"]>, tensor<8x3x3x3xf32>) -> tensor<?x8x7x7xf32, ["N"]> loc(fused["channels-last.tir":3:8, "channels-last.tir":3:23])
    %s = "polyreme.tensor.reduce"(%p) {fn = "max", axes = [2 : i64, 3 : i64], keepdims = false} : (tensor<?x8x7x7xf32, ["N"]>) -> tensor<?x8xf32, ["N"]> loc(fused["channels-last.tir":4:8, "channels-last.tir":4:21])
    "func.return"(%s) : (tensor<?x8xf32, ["N"]>) -> () loc(fused["channels-last.tir":5:3, "channels-last.tir":5:9])
  }) {arg_names = ["x", "w"]} : () -> () loc(fused["channels-last.tir":1:6, "channels-last.tir":1:39])
}) : () -> () loc("channels-last.tir":0:0)
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "few_channels_stay_where_they_are", function_type = (tensor<?x3x9x9xf32, ["N"]>, tensor<8x3x3x3xf32>) -> tensor<?x8xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x3x9x9xf32, ["N"]> loc(unknown), %w: tensor<8x3x3x3xf32> loc(unknown)):
    %v = "polyreme.tensor.window"(%x) {axes = [2 : i64, 3 : i64], sizes = [3 : i64, 3 : i64], strides = [1 : i64, 1 : i64], dilations = [1 : i64, 1 : i64]} : (tensor<?x3x9x9xf32, ["N"]>) -> tensor<?x3x7x7x3x3xf32, ["N"]> loc(fused["channels-last.tir":2:8, "channels-last.tir":2:21])
    %p = "polyreme.tensor.contract"(%v, %w) {spec = "NCabmn,OCmn->NOab"} : (tensor<?x3x7x7x3x3xf32, ["N"]>, tensor<8x3x3x3xf32>) -> tensor<?x8x7x7xf32, ["N"]> loc(fused["channels-last.tir":3:8, "channels-last.tir":3:23])
    %s = "polyreme.tensor.reduce"(%p) {fn = "max", axes = [2 : i64, 3 : i64], keepdims = false} : (tensor<?x8x7x7xf32, ["N"]>) -> tensor<?x8xf32, ["N"]> loc(fused["channels-last.tir":4:8, "channels-last.tir":4:21])
    "func.return"(%s) : (tensor<?x8xf32, ["N"]>) -> () loc(fused["channels-last.tir":5:3, "channels-last.tir":5:9])
  }) {arg_names = ["x", "w"]} : () -> () loc(fused["channels-last.tir":1:6, "channels-last.tir":1:39])
}) : () -> () loc("channels-last.tir":0:0)
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "the_last_gradients_leave_first", function_type = (tensor<512x1024xf32>, tensor<16xf32>) -> (tensor<512x1024xf32>, tensor<16xf32>)}> ({
  ^bb0(%w: tensor<512x1024xf32> loc(unknown), %b: tensor<16xf32> loc(unknown)):
    "func.return"(%w, %b) : (tensor<512x1024xf32>, tensor<16xf32>) -> () loc(fused["data-parallel.tir":3:3, "data-parallel.tir":3:9])
  }) {arg_names = ["w", "b"]} : () -> () loc(fused["data-parallel.tir":2:6, "data-parallel.tir":2:37])
}) : () -> () loc("data-parallel.tir":0:0)
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "the_last_gradients_leave_first", function_type = (tensor<512x1024xf32>, tensor<16xf32>) -> (tensor<512x1024xf32>, tensor<16xf32>)}> ({
  ^bb0(%w: tensor<512x1024xf32> loc(unknown), %b: tensor<16xf32> loc(unknown)):
    %mean_b = "polyreme.dist.all_reduce"(%b) {reduce = "mean", bucket = 0 : i64} : (tensor<16xf32>) -> tensor<16xf32> loc(fused["data-parallel.tir":2:6, "data-parallel.tir":2:37])
    %mean_w = "polyreme.dist.all_reduce"(%w) {reduce = "mean", bucket = 1 : i64} : (tensor<512x1024xf32>) -> tensor<512x1024xf32> loc(fused["data-parallel.tir":2:6, "data-parallel.tir":2:37])
    "func.return"(%mean_w, %mean_b) : (tensor<512x1024xf32>, tensor<16xf32>) -> () loc(fused["data-parallel.tir":3:3, "data-parallel.tir":3:9])
  }) {arg_names = ["w", "b"]} : () -> () loc(fused["data-parallel.tir":2:6, "data-parallel.tir":2:37])
}) : () -> () loc("data-parallel.tir":0:0)
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "small_gradients_travel_together_but_not_with_other_dtypes", function_type = (tensor<4xf32>, tensor<4xf64>, tensor<2xf32>) -> (tensor<4xf32>, tensor<4xf64>, tensor<2xf32>)}> ({
  ^bb0(%a: tensor<4xf32> loc(unknown), %b: tensor<4xf64> loc(unknown), %c: tensor<2xf32> loc(unknown)):
    "func.return"(%a, %b, %c) : (tensor<4xf32>, tensor<4xf64>, tensor<2xf32>) -> () loc(fused["data-parallel.tir":2:3, "data-parallel.tir":2:9])
  }) {arg_names = ["a", "b", "c"]} : () -> () loc(fused["data-parallel.tir":1:6, "data-parallel.tir":1:64])
}) : () -> () loc("data-parallel.tir":0:0)
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "small_gradients_travel_together_but_not_with_other_dtypes", function_type = (tensor<4xf32>, tensor<4xf64>, tensor<2xf32>) -> (tensor<4xf32>, tensor<4xf64>, tensor<2xf32>)}> ({
  ^bb0(%a: tensor<4xf32> loc(unknown), %b: tensor<4xf64> loc(unknown), %c: tensor<2xf32> loc(unknown)):
    %mean_b = "polyreme.dist.all_reduce"(%b) {reduce = "mean", bucket = 0 : i64} : (tensor<4xf64>) -> tensor<4xf64> loc(fused["data-parallel.tir":1:6, "data-parallel.tir":1:64])
    %mean_a, %mean_c = "polyreme.dist.all_reduce"(%a, %c) {reduce = "mean", bucket = 1 : i64} : (tensor<4xf32>, tensor<2xf32>) -> (tensor<4xf32>, tensor<2xf32>) loc(fused["data-parallel.tir":1:6, "data-parallel.tir":1:64])
    "func.return"(%mean_a, %mean_b, %mean_c) : (tensor<4xf32>, tensor<4xf64>, tensor<2xf32>) -> () loc(fused["data-parallel.tir":2:3, "data-parallel.tir":2:9])
  }) {arg_names = ["a", "b", "c"]} : () -> () loc(fused["data-parallel.tir":1:6, "data-parallel.tir":1:64])
}) : () -> () loc("data-parallel.tir":0:0)
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "a_bucket_travels_while_the_next_gradient_is_computed", function_type = (tensor<4x8xf32>, tensor<4x2xf32>, tensor<8x2xf32>) -> (tensor<8x2xf32>, tensor<2xf32>)}> ({
  ^bb0(%x: tensor<4x8xf32> loc(unknown), %dy: tensor<4x2xf32> loc(unknown), %w: tensor<8x2xf32> loc(unknown)):
    %dw = "polyreme.nn.matmul"(%x, %dy) {transpose_x = true, transpose_y = false} : (tensor<4x8xf32>, tensor<4x2xf32>) -> tensor<8x2xf32> loc(fused["data-parallel.tir":3:9, "data-parallel.tir":3:18])
    %db = "polyreme.nn.sum"(%dy) {axis = [0 : i64], keepdims = false} : (tensor<4x2xf32>) -> tensor<2xf32> loc(fused["data-parallel.tir":4:9, "data-parallel.tir":4:15])
    "func.return"(%dw, %db) : (tensor<8x2xf32>, tensor<2xf32>) -> () loc(fused["data-parallel.tir":8:3, "data-parallel.tir":8:9])
  }) {arg_names = ["x", "dy", "w"]} : () -> () loc(fused["data-parallel.tir":2:6, "data-parallel.tir":2:59])
}) : () -> () loc("data-parallel.tir":0:0)
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "a_bucket_travels_while_the_next_gradient_is_computed", function_type = (tensor<4x8xf32>, tensor<4x2xf32>, tensor<8x2xf32>) -> (tensor<8x2xf32>, tensor<2xf32>)}> ({
  ^bb0(%x: tensor<4x8xf32> loc(unknown), %dy: tensor<4x2xf32> loc(unknown), %w: tensor<8x2xf32> loc(unknown)):
    %dw = "polyreme.nn.matmul"(%x, %dy) {transpose_x = true, transpose_y = false} : (tensor<4x8xf32>, tensor<4x2xf32>) -> tensor<8x2xf32> loc(fused["data-parallel.tir":3:9, "data-parallel.tir":3:18])
    %db = "polyreme.nn.sum"(%dy) {axis = [0 : i64], keepdims = false} : (tensor<4x2xf32>) -> tensor<2xf32> loc(fused["data-parallel.tir":4:9, "data-parallel.tir":4:15])
    %mean_dw, %mean_db = "polyreme.dist.all_reduce"(%dw, %db) {reduce = "mean", bucket = 0 : i64} : (tensor<8x2xf32>, tensor<2xf32>) -> (tensor<8x2xf32>, tensor<2xf32>) loc(fused["data-parallel.tir":2:6, "data-parallel.tir":2:59])
    "func.return"(%mean_dw, %mean_db) : (tensor<8x2xf32>, tensor<2xf32>) -> () loc(fused["data-parallel.tir":8:3, "data-parallel.tir":8:9])
  }) {arg_names = ["x", "dy", "w"]} : () -> () loc(fused["data-parallel.tir":2:6, "data-parallel.tir":2:59])
}) : () -> () loc("data-parallel.tir":0:0)
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "what_needs_a_result_waits_and_nothing_else_does", function_type = (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)}> ({
  ^bb0(%x: tensor<4xf32> loc(unknown), %y: tensor<4xf32> loc(unknown)):
    %total = "polyreme.dist.all_reduce"(%x) {reduce = "sum"} : (tensor<4xf32>) -> tensor<4xf32> loc(fused["data-parallel.tir":3:12, "data-parallel.tir":3:27])
    %scaled = "polyreme.nn.square"(%total) : (tensor<4xf32>) -> tensor<4xf32> loc(fused["data-parallel.tir":4:13, "data-parallel.tir":4:22])
    %other = "polyreme.nn.exp"(%y) : (tensor<4xf32>) -> tensor<4xf32> loc(fused["data-parallel.tir":5:12, "data-parallel.tir":5:18])
    "func.return"(%scaled, %other) : (tensor<4xf32>, tensor<4xf32>) -> () loc(fused["data-parallel.tir":6:3, "data-parallel.tir":6:9])
  }) {arg_names = ["x", "y"]} : () -> () loc(fused["data-parallel.tir":2:6, "data-parallel.tir":2:54])
}) : () -> () loc("data-parallel.tir":0:0)
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "what_needs_a_result_waits_and_nothing_else_does", function_type = (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)}> ({
  ^bb0(%x: tensor<4xf32> loc(unknown), %y: tensor<4xf32> loc(unknown)):
    %total = "polyreme.dist.all_reduce"(%x) {reduce = "sum"} : (tensor<4xf32>) -> tensor<4xf32> loc(fused["data-parallel.tir":3:12, "data-parallel.tir":3:27])
    %scaled = "polyreme.nn.square"(%total) : (tensor<4xf32>) -> tensor<4xf32> loc(fused["data-parallel.tir":4:13, "data-parallel.tir":4:22])
    %other = "polyreme.nn.exp"(%y) : (tensor<4xf32>) -> tensor<4xf32> loc(fused["data-parallel.tir":5:12, "data-parallel.tir":5:18])
    %mean_scaled, %mean_other = "polyreme.dist.all_reduce"(%scaled, %other) {reduce = "mean", bucket = 0 : i64} : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) loc(fused["data-parallel.tir":2:6, "data-parallel.tir":2:54])
    "func.return"(%mean_scaled, %mean_other) : (tensor<4xf32>, tensor<4xf32>) -> () loc(fused["data-parallel.tir":6:3, "data-parallel.tir":6:9])
  }) {arg_names = ["x", "y"]} : () -> () loc(fused["data-parallel.tir":2:6, "data-parallel.tir":2:54])
}) : () -> () loc("data-parallel.tir":0:0)
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "starts_keep_their_order", function_type = (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)}> ({
  ^bb0(%x: tensor<4xf32> loc(unknown), %y: tensor<4xf32> loc(unknown)):
    %late = "polyreme.nn.exp"(%x) : (tensor<4xf32>) -> tensor<4xf32> loc(fused["data-parallel.tir":4:11, "data-parallel.tir":4:17])
    %a = "polyreme.dist.all_reduce"(%late) {reduce = "sum"} : (tensor<4xf32>) -> tensor<4xf32> loc(fused["data-parallel.tir":5:8, "data-parallel.tir":5:23])
    %b = "polyreme.dist.all_reduce"(%y) {reduce = "sum"} : (tensor<4xf32>) -> tensor<4xf32> loc(fused["data-parallel.tir":6:8, "data-parallel.tir":6:23])
    "func.return"(%a, %b) : (tensor<4xf32>, tensor<4xf32>) -> () loc(fused["data-parallel.tir":7:3, "data-parallel.tir":7:9])
  }) {arg_names = ["x", "y"]} : () -> () loc(fused["data-parallel.tir":3:6, "data-parallel.tir":3:30])
}) : () -> () loc("data-parallel.tir":0:0)
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "starts_keep_their_order", function_type = (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)}> ({
  ^bb0(%x: tensor<4xf32> loc(unknown), %y: tensor<4xf32> loc(unknown)):
    %late = "polyreme.nn.exp"(%x) : (tensor<4xf32>) -> tensor<4xf32> loc(fused["data-parallel.tir":4:11, "data-parallel.tir":4:17])
    %a = "polyreme.dist.all_reduce"(%late) {reduce = "sum"} : (tensor<4xf32>) -> tensor<4xf32> loc(fused["data-parallel.tir":5:8, "data-parallel.tir":5:23])
    %b = "polyreme.dist.all_reduce"(%y) {reduce = "sum"} : (tensor<4xf32>) -> tensor<4xf32> loc(fused["data-parallel.tir":6:8, "data-parallel.tir":6:23])
    %mean_a, %mean_b = "polyreme.dist.all_reduce"(%a, %b) {reduce = "mean", bucket = 0 : i64} : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) loc(fused["data-parallel.tir":3:6, "data-parallel.tir":3:30])
    "func.return"(%mean_a, %mean_b) : (tensor<4xf32>, tensor<4xf32>) -> () loc(fused["data-parallel.tir":7:3, "data-parallel.tir":7:9])
  }) {arg_names = ["x", "y"]} : () -> () loc(fused["data-parallel.tir":3:6, "data-parallel.tir":3:30])
}) : () -> () loc("data-parallel.tir":0:0)
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "a_chain_of_elementwise_ops_is_one_group", function_type = (tensor<?x8xf32, ["N"]>, tensor<1x8xf32>) -> tensor<?x8xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x8xf32, ["N"]> loc(unknown), %y: tensor<1x8xf32> loc(unknown)):
    %a = "polyreme.tensor.map"(%x, %y) {fn = "add"} : (tensor<?x8xf32, ["N"]>, tensor<1x8xf32>) -> tensor<?x8xf32, ["N"]> loc(fused["fuse.tir":3:8, "fuse.tir":3:18])
    %b = "polyreme.tensor.map"(%a) {fn = "exp"} : (tensor<?x8xf32, ["N"]>) -> tensor<?x8xf32, ["N"]> loc(fused["fuse.tir":4:8, "fuse.tir":4:18])
    "func.return"(%b) : (tensor<?x8xf32, ["N"]>) -> () loc(fused["fuse.tir":5:3, "fuse.tir":5:9])
  }) {arg_names = ["x", "y"]} : () -> () loc(fused["fuse.tir":2:6, "fuse.tir":2:46])
}) : () -> () loc("fuse.tir":0:0)
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "a_chain_of_elementwise_ops_is_one_group", function_type = (tensor<?x8xf32, ["N"]>, tensor<1x8xf32>) -> tensor<?x8xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x8xf32, ["N"]> loc(unknown), %y: tensor<1x8xf32> loc(unknown)):
    %b = "polyreme.tensor.fused"(%x, %y) ({
    ^bb0(%x_1: tensor<?x8xf32, ["N"]> loc(unknown), %y_1: tensor<1x8xf32> loc(unknown)):
      %a = "polyreme.tensor.map"(%x_1, %y_1) {fn = "add"} : (tensor<?x8xf32, ["N"]>, tensor<1x8xf32>) -> tensor<?x8xf32, ["N"]> loc(fused["fuse.tir":3:8, "fuse.tir":3:18])
      %b_1 = "polyreme.tensor.map"(%a) {fn = "exp"} : (tensor<?x8xf32, ["N"]>) -> tensor<?x8xf32, ["N"]> loc(fused["fuse.tir":4:8, "fuse.tir":4:18])
      "polyreme.tensor.yield"(%b_1) : (tensor<?x8xf32, ["N"]>) -> () loc(unknown)
    }) : (tensor<?x8xf32, ["N"]>, tensor<1x8xf32>) -> tensor<?x8xf32, ["N"]> loc(fused["fuse.tir":4:8, "fuse.tir":4:18])
    "func.return"(%b) : (tensor<?x8xf32, ["N"]>) -> () loc(fused["fuse.tir":5:3, "fuse.tir":5:9])
  }) {arg_names = ["x", "y"]} : () -> () loc(fused["fuse.tir":2:6, "fuse.tir":2:46])
}) : () -> () loc("fuse.tir":0:0)
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "softmax_is_one_group", function_type = (tensor<?x8xf32, ["N"]>) -> tensor<?x8xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x8xf32, ["N"]> loc(unknown)):
    %m = "polyreme.tensor.reduce"(%x) {fn = "max", axes = [1 : i64], keepdims = true} : (tensor<?x8xf32, ["N"]>) -> tensor<?x1xf32, ["N"]> loc(fused["fuse.tir":2:8, "fuse.tir":2:21])
    %d = "polyreme.tensor.map"(%x, %m) {fn = "sub"} : (tensor<?x8xf32, ["N"]>, tensor<?x1xf32, ["N"]>) -> tensor<?x8xf32, ["N"]> loc(fused["fuse.tir":3:8, "fuse.tir":3:18])
    %e = "polyreme.tensor.map"(%d) {fn = "exp"} : (tensor<?x8xf32, ["N"]>) -> tensor<?x8xf32, ["N"]> loc(fused["fuse.tir":4:8, "fuse.tir":4:18])
    %s = "polyreme.tensor.reduce"(%e) {fn = "add", axes = [1 : i64], keepdims = true} : (tensor<?x8xf32, ["N"]>) -> tensor<?x1xf32, ["N"]> loc(fused["fuse.tir":5:8, "fuse.tir":5:21])
    %y = "polyreme.tensor.map"(%e, %s) {fn = "div"} : (tensor<?x8xf32, ["N"]>, tensor<?x1xf32, ["N"]>) -> tensor<?x8xf32, ["N"]> loc(fused["fuse.tir":6:8, "fuse.tir":6:18])
    "func.return"(%y) : (tensor<?x8xf32, ["N"]>) -> () loc(fused["fuse.tir":7:3, "fuse.tir":7:9])
  }) {arg_names = ["x"]} : () -> () loc(fused["fuse.tir":1:6, "fuse.tir":1:27])
}) : () -> () loc("fuse.tir":0:0)
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "softmax_is_one_group", function_type = (tensor<?x8xf32, ["N"]>) -> tensor<?x8xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x8xf32, ["N"]> loc(unknown)):
    %y = "polyreme.tensor.fused"(%x) ({
    ^bb0(%x_1: tensor<?x8xf32, ["N"]> loc(unknown)):
      %m = "polyreme.tensor.reduce"(%x_1) {fn = "max", axes = [1 : i64], keepdims = true} : (tensor<?x8xf32, ["N"]>) -> tensor<?x1xf32, ["N"]> loc(fused["fuse.tir":2:8, "fuse.tir":2:21])
      %d = "polyreme.tensor.map"(%x_1, %m) {fn = "sub"} : (tensor<?x8xf32, ["N"]>, tensor<?x1xf32, ["N"]>) -> tensor<?x8xf32, ["N"]> loc(fused["fuse.tir":3:8, "fuse.tir":3:18])
      %e = "polyreme.tensor.map"(%d) {fn = "exp"} : (tensor<?x8xf32, ["N"]>) -> tensor<?x8xf32, ["N"]> loc(fused["fuse.tir":4:8, "fuse.tir":4:18])
      %s = "polyreme.tensor.reduce"(%e) {fn = "add", axes = [1 : i64], keepdims = true} : (tensor<?x8xf32, ["N"]>) -> tensor<?x1xf32, ["N"]> loc(fused["fuse.tir":5:8, "fuse.tir":5:21])
      %y_1 = "polyreme.tensor.map"(%e, %s) {fn = "div"} : (tensor<?x8xf32, ["N"]>, tensor<?x1xf32, ["N"]>) -> tensor<?x8xf32, ["N"]> loc(fused["fuse.tir":6:8, "fuse.tir":6:18])
      "polyreme.tensor.yield"(%y_1) : (tensor<?x8xf32, ["N"]>) -> () loc(unknown)
    }) : (tensor<?x8xf32, ["N"]>) -> tensor<?x8xf32, ["N"]> loc(fused["fuse.tir":6:8, "fuse.tir":6:18])
    "func.return"(%y) : (tensor<?x8xf32, ["N"]>) -> () loc(fused["fuse.tir":7:3, "fuse.tir":7:9])
  }) {arg_names = ["x"]} : () -> () loc(fused["fuse.tir":1:6, "fuse.tir":1:27])
}) : () -> () loc("fuse.tir":0:0)
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "what_follows_a_contract_joins_it", function_type = (tensor<?x4xf32, ["N"]>, tensor<4x8xf32>, tensor<1x8xf32>) -> tensor<?x8xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]> loc(unknown), %w: tensor<4x8xf32> loc(unknown), %b: tensor<1x8xf32> loc(unknown)):
    %p = "polyreme.tensor.contract"(%x, %w) {spec = "mk,kn->mn"} : (tensor<?x4xf32, ["N"]>, tensor<4x8xf32>) -> tensor<?x8xf32, ["N"]> loc(fused["fuse.tir":2:8, "fuse.tir":2:23])
    %q = "polyreme.tensor.map"(%p, %b) {fn = "add"} : (tensor<?x8xf32, ["N"]>, tensor<1x8xf32>) -> tensor<?x8xf32, ["N"]> loc(fused["fuse.tir":3:8, "fuse.tir":3:18])
    %z = "polyreme.tensor.full"() {value = 0.000000e+00 : f64, dtype = f32} : () -> tensor<f32> loc(fused["fuse.tir":4:8, "fuse.tir":4:19])
    %r = "polyreme.tensor.map"(%q, %z) {fn = "max"} : (tensor<?x8xf32, ["N"]>, tensor<f32>) -> tensor<?x8xf32, ["N"]> loc(fused["fuse.tir":5:8, "fuse.tir":5:18])
    "func.return"(%r) : (tensor<?x8xf32, ["N"]>) -> () loc(fused["fuse.tir":6:3, "fuse.tir":6:9])
  }) {arg_names = ["x", "w", "b"]} : () -> () loc(fused["fuse.tir":1:6, "fuse.tir":1:39])
}) : () -> () loc("fuse.tir":0:0)
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "what_follows_a_contract_joins_it", function_type = (tensor<?x4xf32, ["N"]>, tensor<4x8xf32>, tensor<1x8xf32>) -> tensor<?x8xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]> loc(unknown), %w: tensor<4x8xf32> loc(unknown), %b: tensor<1x8xf32> loc(unknown)):
    %r = "polyreme.tensor.fused"(%x, %w, %b) ({
    ^bb0(%x_1: tensor<?x4xf32, ["N"]> loc(unknown), %w_1: tensor<4x8xf32> loc(unknown), %b_1: tensor<1x8xf32> loc(unknown)):
      %p = "polyreme.tensor.contract"(%x_1, %w_1) {spec = "mk,kn->mn"} : (tensor<?x4xf32, ["N"]>, tensor<4x8xf32>) -> tensor<?x8xf32, ["N"]> loc(fused["fuse.tir":2:8, "fuse.tir":2:23])
      %q = "polyreme.tensor.map"(%p, %b_1) {fn = "add"} : (tensor<?x8xf32, ["N"]>, tensor<1x8xf32>) -> tensor<?x8xf32, ["N"]> loc(fused["fuse.tir":3:8, "fuse.tir":3:18])
      %z = "polyreme.tensor.full"() {value = 0.000000e+00 : f64, dtype = f32} : () -> tensor<f32> loc(fused["fuse.tir":4:8, "fuse.tir":4:19])
      %r_1 = "polyreme.tensor.map"(%q, %z) {fn = "max"} : (tensor<?x8xf32, ["N"]>, tensor<f32>) -> tensor<?x8xf32, ["N"]> loc(fused["fuse.tir":5:8, "fuse.tir":5:18])
      "polyreme.tensor.yield"(%r_1) : (tensor<?x8xf32, ["N"]>) -> () loc(unknown)
    }) : (tensor<?x4xf32, ["N"]>, tensor<4x8xf32>, tensor<1x8xf32>) -> tensor<?x8xf32, ["N"]> loc(fused["fuse.tir":5:8, "fuse.tir":5:18])
    "func.return"(%r) : (tensor<?x8xf32, ["N"]>) -> () loc(fused["fuse.tir":6:3, "fuse.tir":6:9])
  }) {arg_names = ["x", "w", "b"]} : () -> () loc(fused["fuse.tir":1:6, "fuse.tir":1:39])
}) : () -> () loc("fuse.tir":0:0)
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "a_bias_goes_with_its_contract_and_not_with_the_softmax", function_type = (tensor<?x4xf32, ["N"]>, tensor<4x8xf32>, tensor<1x8xf32>) -> tensor<?x8xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]> loc(unknown), %w: tensor<4x8xf32> loc(unknown), %b: tensor<1x8xf32> loc(unknown)):
    %p = "polyreme.tensor.contract"(%x, %w) {spec = "mk,kn->mn"} : (tensor<?x4xf32, ["N"]>, tensor<4x8xf32>) -> tensor<?x8xf32, ["N"]> loc(fused["fuse.tir":2:8, "fuse.tir":2:23])
    %q = "polyreme.tensor.map"(%p, %b) {fn = "add"} : (tensor<?x8xf32, ["N"]>, tensor<1x8xf32>) -> tensor<?x8xf32, ["N"]> loc(fused["fuse.tir":3:8, "fuse.tir":3:18])
    %m = "polyreme.tensor.reduce"(%q) {fn = "max", axes = [1 : i64], keepdims = true} : (tensor<?x8xf32, ["N"]>) -> tensor<?x1xf32, ["N"]> loc(fused["fuse.tir":4:8, "fuse.tir":4:21])
    %d = "polyreme.tensor.map"(%q, %m) {fn = "sub"} : (tensor<?x8xf32, ["N"]>, tensor<?x1xf32, ["N"]>) -> tensor<?x8xf32, ["N"]> loc(fused["fuse.tir":5:8, "fuse.tir":5:18])
    "func.return"(%d) : (tensor<?x8xf32, ["N"]>) -> () loc(fused["fuse.tir":6:3, "fuse.tir":6:9])
  }) {arg_names = ["x", "w", "b"]} : () -> () loc(fused["fuse.tir":1:6, "fuse.tir":1:61])
}) : () -> () loc("fuse.tir":0:0)
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "a_bias_goes_with_its_contract_and_not_with_the_softmax", function_type = (tensor<?x4xf32, ["N"]>, tensor<4x8xf32>, tensor<1x8xf32>) -> tensor<?x8xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]> loc(unknown), %w: tensor<4x8xf32> loc(unknown), %b: tensor<1x8xf32> loc(unknown)):
    %q = "polyreme.tensor.fused"(%x, %w, %b) ({
    ^bb0(%x_1: tensor<?x4xf32, ["N"]> loc(unknown), %w_1: tensor<4x8xf32> loc(unknown), %b_1: tensor<1x8xf32> loc(unknown)):
      %p = "polyreme.tensor.contract"(%x_1, %w_1) {spec = "mk,kn->mn"} : (tensor<?x4xf32, ["N"]>, tensor<4x8xf32>) -> tensor<?x8xf32, ["N"]> loc(fused["fuse.tir":2:8, "fuse.tir":2:23])
      %q_1 = "polyreme.tensor.map"(%p, %b_1) {fn = "add"} : (tensor<?x8xf32, ["N"]>, tensor<1x8xf32>) -> tensor<?x8xf32, ["N"]> loc(fused["fuse.tir":3:8, "fuse.tir":3:18])
      "polyreme.tensor.yield"(%q_1) : (tensor<?x8xf32, ["N"]>) -> () loc(unknown)
    }) : (tensor<?x4xf32, ["N"]>, tensor<4x8xf32>, tensor<1x8xf32>) -> tensor<?x8xf32, ["N"]> loc(fused["fuse.tir":3:8, "fuse.tir":3:18])
    %d = "polyreme.tensor.fused"(%q) ({
    ^bb0(%q_2: tensor<?x8xf32, ["N"]> loc(unknown)):
      %m = "polyreme.tensor.reduce"(%q_2) {fn = "max", axes = [1 : i64], keepdims = true} : (tensor<?x8xf32, ["N"]>) -> tensor<?x1xf32, ["N"]> loc(fused["fuse.tir":4:8, "fuse.tir":4:21])
      %d_1 = "polyreme.tensor.map"(%q_2, %m) {fn = "sub"} : (tensor<?x8xf32, ["N"]>, tensor<?x1xf32, ["N"]>) -> tensor<?x8xf32, ["N"]> loc(fused["fuse.tir":5:8, "fuse.tir":5:18])
      "polyreme.tensor.yield"(%d_1) : (tensor<?x8xf32, ["N"]>) -> () loc(unknown)
    }) : (tensor<?x8xf32, ["N"]>) -> tensor<?x8xf32, ["N"]> loc(fused["fuse.tir":5:8, "fuse.tir":5:18])
    "func.return"(%d) : (tensor<?x8xf32, ["N"]>) -> () loc(fused["fuse.tir":6:3, "fuse.tir":6:9])
  }) {arg_names = ["x", "w", "b"]} : () -> () loc(fused["fuse.tir":1:6, "fuse.tir":1:61])
}) : () -> () loc("fuse.tir":0:0)
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "a_convolution_with_bias_relu_and_pooling_is_one_group", function_type = (tensor<?x1x8x8xf32, ["N"]>, tensor<4x1x3x3xf32>, tensor<1x4x1x1xf32>) -> tensor<?x4x4x4xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x1x8x8xf32, ["N"]> loc(unknown), %w: tensor<4x1x3x3xf32> loc(unknown), %b: tensor<1x4x1x1xf32> loc(unknown)):
    %p = "polyreme.tensor.pad"(%x) {low = [0 : i64, 0 : i64, 1 : i64, 1 : i64], high = [0 : i64, 0 : i64, 1 : i64, 1 : i64], interior = [0 : i64, 0 : i64, 0 : i64, 0 : i64], value = 0.000000e+00 : f64} : (tensor<?x1x8x8xf32, ["N"]>) -> tensor<?x1x10x10xf32, ["N"]> loc(fused["fuse.tir":2:8, "fuse.tir":2:18])
    %i = "polyreme.tensor.window"(%p) {axes = [2 : i64, 3 : i64], sizes = [3 : i64, 3 : i64], strides = [1 : i64, 1 : i64], dilations = [1 : i64, 1 : i64]} : (tensor<?x1x10x10xf32, ["N"]>) -> tensor<?x1x8x8x3x3xf32, ["N"]> loc(fused["fuse.tir":3:8, "fuse.tir":3:21])
    %c = "polyreme.tensor.contract"(%i, %w) {spec = "nchwij,ocij->nohw"} : (tensor<?x1x8x8x3x3xf32, ["N"]>, tensor<4x1x3x3xf32>) -> tensor<?x4x8x8xf32, ["N"]> loc(fused["fuse.tir":4:8, "fuse.tir":4:23])
    %s = "polyreme.tensor.map"(%c, %b) {fn = "add"} : (tensor<?x4x8x8xf32, ["N"]>, tensor<1x4x1x1xf32>) -> tensor<?x4x8x8xf32, ["N"]> loc(fused["fuse.tir":5:8, "fuse.tir":5:18])
    %v = "polyreme.tensor.window"(%s) {axes = [2 : i64, 3 : i64], sizes = [2 : i64, 2 : i64], strides = [2 : i64, 2 : i64], dilations = [1 : i64, 1 : i64]} : (tensor<?x4x8x8xf32, ["N"]>) -> tensor<?x4x4x4x2x2xf32, ["N"]> loc(fused["fuse.tir":6:8, "fuse.tir":6:21])
    %m = "polyreme.tensor.reduce"(%v) {fn = "max", axes = [4 : i64, 5 : i64], keepdims = false} : (tensor<?x4x4x4x2x2xf32, ["N"]>) -> tensor<?x4x4x4xf32, ["N"]> loc(fused["fuse.tir":7:8, "fuse.tir":7:21])
    "func.return"(%m) : (tensor<?x4x4x4xf32, ["N"]>) -> () loc(fused["fuse.tir":8:3, "fuse.tir":8:9])
  }) {arg_names = ["x", "w", "b"]} : () -> () loc(fused["fuse.tir":1:6, "fuse.tir":1:60])
}) : () -> () loc("fuse.tir":0:0)
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "a_convolution_with_bias_relu_and_pooling_is_one_group", function_type = (tensor<?x1x8x8xf32, ["N"]>, tensor<4x1x3x3xf32>, tensor<1x4x1x1xf32>) -> tensor<?x4x4x4xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x1x8x8xf32, ["N"]> loc(unknown), %w: tensor<4x1x3x3xf32> loc(unknown), %b: tensor<1x4x1x1xf32> loc(unknown)):
    %m = "polyreme.tensor.fused"(%x, %w, %b) ({
    ^bb0(%x_1: tensor<?x1x8x8xf32, ["N"]> loc(unknown), %w_1: tensor<4x1x3x3xf32> loc(unknown), %b_1: tensor<1x4x1x1xf32> loc(unknown)):
      %p = "polyreme.tensor.pad"(%x_1) {low = [0 : i64, 0 : i64, 1 : i64, 1 : i64], high = [0 : i64, 0 : i64, 1 : i64, 1 : i64], interior = [0 : i64, 0 : i64, 0 : i64, 0 : i64], value = 0.000000e+00 : f64} : (tensor<?x1x8x8xf32, ["N"]>) -> tensor<?x1x10x10xf32, ["N"]> loc(fused["fuse.tir":2:8, "fuse.tir":2:18])
      %i = "polyreme.tensor.window"(%p) {axes = [2 : i64, 3 : i64], sizes = [3 : i64, 3 : i64], strides = [1 : i64, 1 : i64], dilations = [1 : i64, 1 : i64]} : (tensor<?x1x10x10xf32, ["N"]>) -> tensor<?x1x8x8x3x3xf32, ["N"]> loc(fused["fuse.tir":3:8, "fuse.tir":3:21])
      %c = "polyreme.tensor.contract"(%i, %w_1) {spec = "nchwij,ocij->nohw"} : (tensor<?x1x8x8x3x3xf32, ["N"]>, tensor<4x1x3x3xf32>) -> tensor<?x4x8x8xf32, ["N"]> loc(fused["fuse.tir":4:8, "fuse.tir":4:23])
      %s = "polyreme.tensor.map"(%c, %b_1) {fn = "add"} : (tensor<?x4x8x8xf32, ["N"]>, tensor<1x4x1x1xf32>) -> tensor<?x4x8x8xf32, ["N"]> loc(fused["fuse.tir":5:8, "fuse.tir":5:18])
      %v = "polyreme.tensor.window"(%s) {axes = [2 : i64, 3 : i64], sizes = [2 : i64, 2 : i64], strides = [2 : i64, 2 : i64], dilations = [1 : i64, 1 : i64]} : (tensor<?x4x8x8xf32, ["N"]>) -> tensor<?x4x4x4x2x2xf32, ["N"]> loc(fused["fuse.tir":6:8, "fuse.tir":6:21])
      %m_1 = "polyreme.tensor.reduce"(%v) {fn = "max", axes = [4 : i64, 5 : i64], keepdims = false} : (tensor<?x4x4x4x2x2xf32, ["N"]>) -> tensor<?x4x4x4xf32, ["N"]> loc(fused["fuse.tir":7:8, "fuse.tir":7:21])
      "polyreme.tensor.yield"(%m_1) : (tensor<?x4x4x4xf32, ["N"]>) -> () loc(unknown)
    }) : (tensor<?x1x8x8xf32, ["N"]>, tensor<4x1x3x3xf32>, tensor<1x4x1x1xf32>) -> tensor<?x4x4x4xf32, ["N"]> loc(fused["fuse.tir":7:8, "fuse.tir":7:21])
    "func.return"(%m) : (tensor<?x4x4x4xf32, ["N"]>) -> () loc(fused["fuse.tir":8:3, "fuse.tir":8:9])
  }) {arg_names = ["x", "w", "b"]} : () -> () loc(fused["fuse.tir":1:6, "fuse.tir":1:60])
}) : () -> () loc("fuse.tir":0:0)
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "overlapping_windows_read_what_was_computed_once", function_type = (tensor<?x9xf32, ["N"]>) -> tensor<?x7xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x9xf32, ["N"]> loc(unknown)):
    %e = "polyreme.tensor.map"(%x) {fn = "exp"} : (tensor<?x9xf32, ["N"]>) -> tensor<?x9xf32, ["N"]> loc(fused["fuse.tir":3:8, "fuse.tir":3:18])
    %w = "polyreme.tensor.window"(%e) {axes = [1 : i64], sizes = [3 : i64], strides = [1 : i64], dilations = [1 : i64]} : (tensor<?x9xf32, ["N"]>) -> tensor<?x7x3xf32, ["N"]> loc(fused["fuse.tir":4:8, "fuse.tir":4:21])
    %y = "polyreme.tensor.reduce"(%w) {fn = "add", axes = [2 : i64], keepdims = false} : (tensor<?x7x3xf32, ["N"]>) -> tensor<?x7xf32, ["N"]> loc(fused["fuse.tir":5:8, "fuse.tir":5:21])
    "func.return"(%y) : (tensor<?x7xf32, ["N"]>) -> () loc(fused["fuse.tir":6:3, "fuse.tir":6:9])
  }) {arg_names = ["x"]} : () -> () loc(fused["fuse.tir":2:6, "fuse.tir":2:54])
}) : () -> () loc("fuse.tir":0:0)
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "overlapping_windows_read_what_was_computed_once", function_type = (tensor<?x9xf32, ["N"]>) -> tensor<?x7xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x9xf32, ["N"]> loc(unknown)):
    %e = "polyreme.tensor.map"(%x) {fn = "exp"} : (tensor<?x9xf32, ["N"]>) -> tensor<?x9xf32, ["N"]> loc(fused["fuse.tir":3:8, "fuse.tir":3:18])
    %y = "polyreme.tensor.fused"(%e) ({
    ^bb0(%e_1: tensor<?x9xf32, ["N"]> loc(unknown)):
      %w = "polyreme.tensor.window"(%e_1) {axes = [1 : i64], sizes = [3 : i64], strides = [1 : i64], dilations = [1 : i64]} : (tensor<?x9xf32, ["N"]>) -> tensor<?x7x3xf32, ["N"]> loc(fused["fuse.tir":4:8, "fuse.tir":4:21])
      %y_1 = "polyreme.tensor.reduce"(%w) {fn = "add", axes = [2 : i64], keepdims = false} : (tensor<?x7x3xf32, ["N"]>) -> tensor<?x7xf32, ["N"]> loc(fused["fuse.tir":5:8, "fuse.tir":5:21])
      "polyreme.tensor.yield"(%y_1) : (tensor<?x7xf32, ["N"]>) -> () loc(unknown)
    }) : (tensor<?x9xf32, ["N"]>) -> tensor<?x7xf32, ["N"]> loc(fused["fuse.tir":5:8, "fuse.tir":5:21])
    "func.return"(%y) : (tensor<?x7xf32, ["N"]>) -> () loc(fused["fuse.tir":6:3, "fuse.tir":6:9])
  }) {arg_names = ["x"]} : () -> () loc(fused["fuse.tir":2:6, "fuse.tir":2:54])
}) : () -> () loc("fuse.tir":0:0)
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "a_value_that_is_also_returned_is_handed_out_by_its_group", function_type = (tensor<?x9xf32, ["N"]>) -> (tensor<?x9xf32, ["N"]>, tensor<?x9xf32, ["N"]>)}> ({
  ^bb0(%x: tensor<?x9xf32, ["N"]> loc(unknown)):
    %e = "polyreme.tensor.map"(%x) {fn = "exp"} : (tensor<?x9xf32, ["N"]>) -> tensor<?x9xf32, ["N"]> loc(fused["fuse.tir":2:8, "fuse.tir":2:18])
    %t = "polyreme.tensor.map"(%e) {fn = "tanh"} : (tensor<?x9xf32, ["N"]>) -> tensor<?x9xf32, ["N"]> loc(fused["fuse.tir":3:8, "fuse.tir":3:18])
    "func.return"(%e, %t) : (tensor<?x9xf32, ["N"]>, tensor<?x9xf32, ["N"]>) -> () loc(fused["fuse.tir":4:3, "fuse.tir":4:9])
  }) {arg_names = ["x"]} : () -> () loc(fused["fuse.tir":1:6, "fuse.tir":1:63])
}) : () -> () loc("fuse.tir":0:0)
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "a_value_that_is_also_returned_is_handed_out_by_its_group", function_type = (tensor<?x9xf32, ["N"]>) -> (tensor<?x9xf32, ["N"]>, tensor<?x9xf32, ["N"]>)}> ({
  ^bb0(%x: tensor<?x9xf32, ["N"]> loc(unknown)):
    %e, %t = "polyreme.tensor.fused"(%x) ({
    ^bb0(%x_1: tensor<?x9xf32, ["N"]> loc(unknown)):
      %e_1 = "polyreme.tensor.map"(%x_1) {fn = "exp"} : (tensor<?x9xf32, ["N"]>) -> tensor<?x9xf32, ["N"]> loc(fused["fuse.tir":2:8, "fuse.tir":2:18])
      %t_1 = "polyreme.tensor.map"(%e_1) {fn = "tanh"} : (tensor<?x9xf32, ["N"]>) -> tensor<?x9xf32, ["N"]> loc(fused["fuse.tir":3:8, "fuse.tir":3:18])
      "polyreme.tensor.yield"(%e_1, %t_1) : (tensor<?x9xf32, ["N"]>, tensor<?x9xf32, ["N"]>) -> () loc(unknown)
    }) : (tensor<?x9xf32, ["N"]>) -> (tensor<?x9xf32, ["N"]>, tensor<?x9xf32, ["N"]>) loc(fused["fuse.tir":3:8, "fuse.tir":3:18])
    "func.return"(%e, %t) : (tensor<?x9xf32, ["N"]>, tensor<?x9xf32, ["N"]>) -> () loc(fused["fuse.tir":4:3, "fuse.tir":4:9])
  }) {arg_names = ["x"]} : () -> () loc(fused["fuse.tir":1:6, "fuse.tir":1:63])
}) : () -> () loc("fuse.tir":0:0)
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "a_group_has_no_way_out_and_in_again", function_type = (tensor<4x4xf32>) -> tensor<4x4xf32>}> ({
  ^bb0(%x: tensor<4x4xf32> loc(unknown)):
    %a = "polyreme.tensor.map"(%x) {fn = "exp"} : (tensor<4x4xf32>) -> tensor<4x4xf32> loc(fused["fuse.tir":3:8, "fuse.tir":3:18])
    %p = "polyreme.tensor.contract"(%a, %a) {spec = "mk,kn->mn"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc(fused["fuse.tir":4:8, "fuse.tir":4:23])
    %y = "polyreme.tensor.map"(%a, %p) {fn = "add"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc(fused["fuse.tir":5:8, "fuse.tir":5:18])
    "func.return"(%y) : (tensor<4x4xf32>) -> () loc(fused["fuse.tir":6:3, "fuse.tir":6:9])
  }) {arg_names = ["x"]} : () -> () loc(fused["fuse.tir":2:6, "fuse.tir":2:42])
}) : () -> () loc("fuse.tir":0:0)
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "a_group_has_no_way_out_and_in_again", function_type = (tensor<4x4xf32>) -> tensor<4x4xf32>}> ({
  ^bb0(%x: tensor<4x4xf32> loc(unknown)):
    %a = "polyreme.tensor.map"(%x) {fn = "exp"} : (tensor<4x4xf32>) -> tensor<4x4xf32> loc(fused["fuse.tir":3:8, "fuse.tir":3:18])
    %y = "polyreme.tensor.fused"(%a) ({
    ^bb0(%a_1: tensor<4x4xf32> loc(unknown)):
      %p = "polyreme.tensor.contract"(%a_1, %a_1) {spec = "mk,kn->mn"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc(fused["fuse.tir":4:8, "fuse.tir":4:23])
      %y_1 = "polyreme.tensor.map"(%a_1, %p) {fn = "add"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc(fused["fuse.tir":5:8, "fuse.tir":5:18])
      "polyreme.tensor.yield"(%y_1) : (tensor<4x4xf32>) -> () loc(unknown)
    }) : (tensor<4x4xf32>) -> tensor<4x4xf32> loc(fused["fuse.tir":5:8, "fuse.tir":5:18])
    "func.return"(%y) : (tensor<4x4xf32>) -> () loc(fused["fuse.tir":6:3, "fuse.tir":6:9])
  }) {arg_names = ["x"]} : () -> () loc(fused["fuse.tir":2:6, "fuse.tir":2:42])
}) : () -> () loc("fuse.tir":0:0)
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "reductions_of_the_same_rows_are_one_sweep", function_type = (tensor<?x9xf32, ["N"]>) -> (tensor<?xf32, ["N"]>, tensor<?xf32, ["N"]>)}> ({
  ^bb0(%x: tensor<?x9xf32, ["N"]> loc(unknown)):
    %q = "polyreme.tensor.map"(%x, %x) {fn = "mul"} : (tensor<?x9xf32, ["N"]>, tensor<?x9xf32, ["N"]>) -> tensor<?x9xf32, ["N"]> loc(fused["fuse.tir":2:8, "fuse.tir":2:18])
    %s = "polyreme.tensor.reduce"(%x) {fn = "add", axes = [1 : i64], keepdims = false} : (tensor<?x9xf32, ["N"]>) -> tensor<?xf32, ["N"]> loc(fused["fuse.tir":3:8, "fuse.tir":3:21])
    %t = "polyreme.tensor.reduce"(%q) {fn = "add", axes = [1 : i64], keepdims = false} : (tensor<?x9xf32, ["N"]>) -> tensor<?xf32, ["N"]> loc(fused["fuse.tir":4:8, "fuse.tir":4:21])
    "func.return"(%s, %t) : (tensor<?xf32, ["N"]>, tensor<?xf32, ["N"]>) -> () loc(fused["fuse.tir":5:3, "fuse.tir":5:9])
  }) {arg_names = ["x"]} : () -> () loc(fused["fuse.tir":1:6, "fuse.tir":1:48])
}) : () -> () loc("fuse.tir":0:0)
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "reductions_of_the_same_rows_are_one_sweep", function_type = (tensor<?x9xf32, ["N"]>) -> (tensor<?xf32, ["N"]>, tensor<?xf32, ["N"]>)}> ({
  ^bb0(%x: tensor<?x9xf32, ["N"]> loc(unknown)):
    %s, %t = "polyreme.tensor.fused"(%x) ({
    ^bb0(%x_1: tensor<?x9xf32, ["N"]> loc(unknown)):
      %q = "polyreme.tensor.map"(%x_1, %x_1) {fn = "mul"} : (tensor<?x9xf32, ["N"]>, tensor<?x9xf32, ["N"]>) -> tensor<?x9xf32, ["N"]> loc(fused["fuse.tir":2:8, "fuse.tir":2:18])
      %s_1 = "polyreme.tensor.reduce"(%x_1) {fn = "add", axes = [1 : i64], keepdims = false} : (tensor<?x9xf32, ["N"]>) -> tensor<?xf32, ["N"]> loc(fused["fuse.tir":3:8, "fuse.tir":3:21])
      %t_1 = "polyreme.tensor.reduce"(%q) {fn = "add", axes = [1 : i64], keepdims = false} : (tensor<?x9xf32, ["N"]>) -> tensor<?xf32, ["N"]> loc(fused["fuse.tir":4:8, "fuse.tir":4:21])
      "polyreme.tensor.yield"(%s_1, %t_1) : (tensor<?xf32, ["N"]>, tensor<?xf32, ["N"]>) -> () loc(unknown)
    }) : (tensor<?x9xf32, ["N"]>) -> (tensor<?xf32, ["N"]>, tensor<?xf32, ["N"]>) loc(fused["fuse.tir":4:8, "fuse.tir":4:21])
    "func.return"(%s, %t) : (tensor<?xf32, ["N"]>, tensor<?xf32, ["N"]>) -> () loc(fused["fuse.tir":5:3, "fuse.tir":5:9])
  }) {arg_names = ["x"]} : () -> () loc(fused["fuse.tir":1:6, "fuse.tir":1:48])
}) : () -> () loc("fuse.tir":0:0)
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "reductions_along_different_axes_stay_apart", function_type = (tensor<?x9xf32, ["N"]>) -> (tensor<9xf32>, tensor<?xf32, ["N"]>)}> ({
  ^bb0(%x: tensor<?x9xf32, ["N"]> loc(unknown)):
    %s = "polyreme.tensor.reduce"(%x) {fn = "add", axes = [0 : i64], keepdims = false} : (tensor<?x9xf32, ["N"]>) -> tensor<9xf32> loc(fused["fuse.tir":2:8, "fuse.tir":2:21])
    %t = "polyreme.tensor.reduce"(%x) {fn = "add", axes = [1 : i64], keepdims = false} : (tensor<?x9xf32, ["N"]>) -> tensor<?xf32, ["N"]> loc(fused["fuse.tir":3:8, "fuse.tir":3:21])
    "func.return"(%s, %t) : (tensor<9xf32>, tensor<?xf32, ["N"]>) -> () loc(fused["fuse.tir":4:3, "fuse.tir":4:9])
  }) {arg_names = ["x"]} : () -> () loc(fused["fuse.tir":1:6, "fuse.tir":1:49])
}) : () -> () loc("fuse.tir":0:0)
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "reductions_along_different_axes_stay_apart", function_type = (tensor<?x9xf32, ["N"]>) -> (tensor<9xf32>, tensor<?xf32, ["N"]>)}> ({
  ^bb0(%x: tensor<?x9xf32, ["N"]> loc(unknown)):
    %s = "polyreme.tensor.reduce"(%x) {fn = "add", axes = [0 : i64], keepdims = false} : (tensor<?x9xf32, ["N"]>) -> tensor<9xf32> loc(fused["fuse.tir":2:8, "fuse.tir":2:21])
    %t = "polyreme.tensor.reduce"(%x) {fn = "add", axes = [1 : i64], keepdims = false} : (tensor<?x9xf32, ["N"]>) -> tensor<?xf32, ["N"]> loc(fused["fuse.tir":3:8, "fuse.tir":3:21])
    "func.return"(%s, %t) : (tensor<9xf32>, tensor<?xf32, ["N"]>) -> () loc(fused["fuse.tir":4:3, "fuse.tir":4:9])
  }) {arg_names = ["x"]} : () -> () loc(fused["fuse.tir":1:6, "fuse.tir":1:49])
}) : () -> () loc("fuse.tir":0:0)
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "the_pad_of_a_sliding_pooling_is_written_once", function_type = (tensor<?x9xf32, ["N"]>) -> tensor<?x5xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x9xf32, ["N"]> loc(unknown)):
    %e = "polyreme.tensor.map"(%x) {fn = "neg"} : (tensor<?x9xf32, ["N"]>) -> tensor<?x9xf32, ["N"]> loc(fused["fuse.tir":2:8, "fuse.tir":2:18])
    %p = "polyreme.tensor.pad"(%e) {low = [0 : i64, 1 : i64], high = [0 : i64, 1 : i64], interior = [0 : i64, 0 : i64], value = 0.000000e+00 : f64} : (tensor<?x9xf32, ["N"]>) -> tensor<?x11xf32, ["N"]> loc(fused["fuse.tir":3:8, "fuse.tir":3:18])
    %w = "polyreme.tensor.window"(%p) {axes = [1 : i64], sizes = [3 : i64], strides = [2 : i64], dilations = [1 : i64]} : (tensor<?x11xf32, ["N"]>) -> tensor<?x5x3xf32, ["N"]> loc(fused["fuse.tir":4:8, "fuse.tir":4:21])
    %y = "polyreme.tensor.reduce"(%w) {fn = "max", axes = [2 : i64], keepdims = false} : (tensor<?x5x3xf32, ["N"]>) -> tensor<?x5xf32, ["N"]> loc(fused["fuse.tir":5:8, "fuse.tir":5:21])
    "func.return"(%y) : (tensor<?x5xf32, ["N"]>) -> () loc(fused["fuse.tir":6:3, "fuse.tir":6:9])
  }) {arg_names = ["x"]} : () -> () loc(fused["fuse.tir":1:6, "fuse.tir":1:51])
}) : () -> () loc("fuse.tir":0:0)
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "the_pad_of_a_sliding_pooling_is_written_once", function_type = (tensor<?x9xf32, ["N"]>) -> tensor<?x5xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x9xf32, ["N"]> loc(unknown)):
    %p = "polyreme.tensor.fused"(%x) ({
    ^bb0(%x_1: tensor<?x9xf32, ["N"]> loc(unknown)):
      %e = "polyreme.tensor.map"(%x_1) {fn = "neg"} : (tensor<?x9xf32, ["N"]>) -> tensor<?x9xf32, ["N"]> loc(fused["fuse.tir":2:8, "fuse.tir":2:18])
      %p_1 = "polyreme.tensor.pad"(%e) {low = [0 : i64, 1 : i64], high = [0 : i64, 1 : i64], interior = [0 : i64, 0 : i64], value = 0.000000e+00 : f64} : (tensor<?x9xf32, ["N"]>) -> tensor<?x11xf32, ["N"]> loc(fused["fuse.tir":3:8, "fuse.tir":3:18])
      "polyreme.tensor.yield"(%p_1) : (tensor<?x11xf32, ["N"]>) -> () loc(unknown)
    }) : (tensor<?x9xf32, ["N"]>) -> tensor<?x11xf32, ["N"]> loc(fused["fuse.tir":3:8, "fuse.tir":3:18])
    %y = "polyreme.tensor.fused"(%p) ({
    ^bb0(%p_2: tensor<?x11xf32, ["N"]> loc(unknown)):
      %w = "polyreme.tensor.window"(%p_2) {axes = [1 : i64], sizes = [3 : i64], strides = [2 : i64], dilations = [1 : i64]} : (tensor<?x11xf32, ["N"]>) -> tensor<?x5x3xf32, ["N"]> loc(fused["fuse.tir":4:8, "fuse.tir":4:21])
      %y_1 = "polyreme.tensor.reduce"(%w) {fn = "max", axes = [2 : i64], keepdims = false} : (tensor<?x5x3xf32, ["N"]>) -> tensor<?x5xf32, ["N"]> loc(fused["fuse.tir":5:8, "fuse.tir":5:21])
      "polyreme.tensor.yield"(%y_1) : (tensor<?x5xf32, ["N"]>) -> () loc(unknown)
    }) : (tensor<?x11xf32, ["N"]>) -> tensor<?x5xf32, ["N"]> loc(fused["fuse.tir":5:8, "fuse.tir":5:21])
    "func.return"(%y) : (tensor<?x5xf32, ["N"]>) -> () loc(fused["fuse.tir":6:3, "fuse.tir":6:9])
  }) {arg_names = ["x"]} : () -> () loc(fused["fuse.tir":1:6, "fuse.tir":1:51])
}) : () -> () loc("fuse.tir":0:0)
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "steps_are_multiplied_as_they_are_and_scales_come_after_the_sum", function_type = (tensor<2x4xf32>) -> tensor<2x2xf32>}> ({
  ^bb0(%x: tensor<2x4xf32> loc(unknown)):
    %half = "polyreme.tensor.full"() {value = 5.000000e-01 : f64, dtype = f32} : () -> tensor<f32> loc(fused["integer-products.tir":3:11, "integer-products.tir":3:22])
    %two = "polyreme.tensor.full"() {value = 2.000000e+00 : f64, dtype = f32} : () -> tensor<f32> loc(fused["integer-products.tir":4:10, "integer-products.tir":4:21])
    %low = "polyreme.tensor.full"() {value = -1.280000e+02 : f64, dtype = f32} : () -> tensor<f32> loc(fused["integer-products.tir":5:10, "integer-products.tir":5:21])
    %high = "polyreme.tensor.full"() {value = 1.270000e+02 : f64, dtype = f32} : () -> tensor<f32> loc(fused["integer-products.tir":6:11, "integer-products.tir":6:22])
    %scaled = "polyreme.tensor.map"(%x, %two) {fn = "mul"} : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32> loc(fused["integer-products.tir":7:13, "integer-products.tir":7:23])
    %round = "polyreme.tensor.map"(%scaled) {fn = "round"} : (tensor<2x4xf32>) -> tensor<2x4xf32> loc(fused["integer-products.tir":8:12, "integer-products.tir":8:22])
    %above = "polyreme.tensor.map"(%round, %low) {fn = "max"} : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32> loc(fused["integer-products.tir":9:12, "integer-products.tir":9:22])
    %inside = "polyreme.tensor.map"(%above, %high) {fn = "min"} : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32> loc(fused["integer-products.tir":10:13, "integer-products.tir":10:23])
    %steps = "polyreme.tensor.map"(%inside) {fn = "cast", dtype = i8} : (tensor<2x4xf32>) -> tensor<2x4xi8> loc(fused["integer-products.tir":11:12, "integer-products.tir":11:22])
    %float = "polyreme.tensor.map"(%steps) {fn = "cast", dtype = f32} : (tensor<2x4xi8>) -> tensor<2x4xf32> loc(fused["integer-products.tir":12:12, "integer-products.tir":12:22])
    %again = "polyreme.tensor.map"(%float, %half) {fn = "mul"} : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32> loc(fused["integer-products.tir":13:12, "integer-products.tir":13:22])
    %w = "polyreme.tensor.constant"() {value = dense<[[1, 2], [3, -4], [5, 6], [-7, 8]]> : tensor<4x2xi8>} : () -> tensor<4x2xi8> loc(fused["integer-products.tir":14:8, "integer-products.tir":14:23])
    %scales = "polyreme.tensor.constant"() {value = dense<[[2.500000e-01, 1.250000e-01]]> : tensor<1x2xf32>} : () -> tensor<1x2xf32> loc(fused["integer-products.tir":15:13, "integer-products.tir":15:28])
    %counts = "polyreme.tensor.map"(%w) {fn = "cast", dtype = f32} : (tensor<4x2xi8>) -> tensor<4x2xf32> loc(fused["integer-products.tir":16:13, "integer-products.tir":16:23])
    %weight = "polyreme.tensor.map"(%counts, %scales) {fn = "mul"} : (tensor<4x2xf32>, tensor<1x2xf32>) -> tensor<4x2xf32> loc(fused["integer-products.tir":17:13, "integer-products.tir":17:23])
    %y = "polyreme.tensor.contract"(%again, %weight) {spec = "mk,kn->mn"} : (tensor<2x4xf32>, tensor<4x2xf32>) -> tensor<2x2xf32> loc(fused["integer-products.tir":18:8, "integer-products.tir":18:23])
    "func.return"(%y) : (tensor<2x2xf32>) -> () loc(fused["integer-products.tir":19:3, "integer-products.tir":19:9])
  }) {arg_names = ["x"]} : () -> () loc(fused["integer-products.tir":2:6, "integer-products.tir":2:69])
}) : () -> () loc("integer-products.tir":0:0)
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "steps_are_multiplied_as_they_are_and_scales_come_after_the_sum", function_type = (tensor<2x4xf32>) -> tensor<2x2xf32>}> ({
  ^bb0(%x: tensor<2x4xf32> loc(unknown)):
    %two = "polyreme.tensor.full"() {value = 2.000000e+00 : f64, dtype = f32} : () -> tensor<f32> loc(fused["integer-products.tir":4:10, "integer-products.tir":4:21])
    %scaled = "polyreme.tensor.map"(%x, %two) {fn = "mul"} : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32> loc(fused["integer-products.tir":7:13, "integer-products.tir":7:23])
    %0 = "polyreme.tensor.full"() {value = -128 : i64, dtype = f32} : () -> tensor<f32> loc(fused["integer-products.tir":11:12, "integer-products.tir":11:22])
    %1 = "polyreme.tensor.map"(%scaled, %0) {fn = "max"} : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32> loc(fused["integer-products.tir":11:12, "integer-products.tir":11:22])
    %2 = "polyreme.tensor.full"() {value = 127 : i64, dtype = f32} : () -> tensor<f32> loc(fused["integer-products.tir":11:12, "integer-products.tir":11:22])
    %3 = "polyreme.tensor.map"(%1, %2) {fn = "min"} : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32> loc(fused["integer-products.tir":11:12, "integer-products.tir":11:22])
    %4 = "polyreme.tensor.map"(%3) {fn = "round"} : (tensor<2x4xf32>) -> tensor<2x4xf32> loc(fused["integer-products.tir":11:12, "integer-products.tir":11:22])
    %5 = "polyreme.tensor.map"(%4) {fn = "cast", dtype = i32} : (tensor<2x4xf32>) -> tensor<2x4xi32> loc(fused["integer-products.tir":11:12, "integer-products.tir":11:22])
    %6 = "polyreme.tensor.full"() {value = 128 : i64, dtype = i32} : () -> tensor<i32> loc(fused["integer-products.tir":11:12, "integer-products.tir":11:22])
    %7 = "polyreme.tensor.map"(%5, %6) {fn = "add"} : (tensor<2x4xi32>, tensor<i32>) -> tensor<2x4xi32> loc(fused["integer-products.tir":11:12, "integer-products.tir":11:22])
    %8 = "polyreme.tensor.map"(%7) {fn = "cast", dtype = ui8} : (tensor<2x4xi32>) -> tensor<2x4xui8> loc(fused["integer-products.tir":11:12, "integer-products.tir":11:22])
    %9 = "polyreme.tensor.constant"() {value = dense<[[1, 2], [3, -4], [5, 6], [-7, 8]]> : tensor<4x2xi8>} : () -> tensor<4x2xi8> loc(fused["integer-products.tir":18:8, "integer-products.tir":18:23])
    %10 = "polyreme.tensor.contract"(%8, %9) {spec = "mk,kn->mn", dtype = i32} : (tensor<2x4xui8>, tensor<4x2xi8>) -> tensor<2x2xi32> loc(fused["integer-products.tir":18:8, "integer-products.tir":18:23])
    %11 = "polyreme.tensor.constant"() {value = dense<[[-256, -1536]]> : tensor<1x2xi32>} : () -> tensor<1x2xi32> loc(fused["integer-products.tir":18:8, "integer-products.tir":18:23])
    %12 = "polyreme.tensor.map"(%10, %11) {fn = "add"} : (tensor<2x2xi32>, tensor<1x2xi32>) -> tensor<2x2xi32> loc(fused["integer-products.tir":18:8, "integer-products.tir":18:23])
    %13 = "polyreme.tensor.map"(%12) {fn = "cast", dtype = f32} : (tensor<2x2xi32>) -> tensor<2x2xf32> loc(fused["integer-products.tir":18:8, "integer-products.tir":18:23])
    %14 = "polyreme.tensor.constant"() {value = dense<[[1.250000e-01, 6.250000e-02]]> : tensor<1x2xf32>} : () -> tensor<1x2xf32> loc(fused["integer-products.tir":18:8, "integer-products.tir":18:23])
    %y = "polyreme.tensor.map"(%13, %14) {fn = "mul"} : (tensor<2x2xf32>, tensor<1x2xf32>) -> tensor<2x2xf32> loc(fused["integer-products.tir":18:8, "integer-products.tir":18:23])
    "func.return"(%y) : (tensor<2x2xf32>) -> () loc(fused["integer-products.tir":19:3, "integer-products.tir":19:9])
  }) {arg_names = ["x"]} : () -> () loc(fused["integer-products.tir":2:6, "integer-products.tir":2:69])
}) : () -> () loc("integer-products.tir":0:0)
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "weights_that_are_not_known_stay_in_floats", function_type = (tensor<2x4xi8>, tensor<4x2xi8>) -> tensor<2x2xf32>}> ({
  ^bb0(%q: tensor<2x4xi8> loc(unknown), %w: tensor<4x2xi8> loc(unknown)):
    %half = "polyreme.tensor.full"() {value = 5.000000e-01 : f64, dtype = f32} : () -> tensor<f32> loc(fused["integer-products.tir":2:11, "integer-products.tir":2:22])
    %float = "polyreme.tensor.map"(%q) {fn = "cast", dtype = f32} : (tensor<2x4xi8>) -> tensor<2x4xf32> loc(fused["integer-products.tir":3:12, "integer-products.tir":3:22])
    %x = "polyreme.tensor.map"(%float, %half) {fn = "mul"} : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32> loc(fused["integer-products.tir":4:8, "integer-products.tir":4:18])
    %counts = "polyreme.tensor.map"(%w) {fn = "cast", dtype = f32} : (tensor<4x2xi8>) -> tensor<4x2xf32> loc(fused["integer-products.tir":5:13, "integer-products.tir":5:23])
    %weight = "polyreme.tensor.map"(%counts, %half) {fn = "mul"} : (tensor<4x2xf32>, tensor<f32>) -> tensor<4x2xf32> loc(fused["integer-products.tir":6:13, "integer-products.tir":6:23])
    %y = "polyreme.tensor.contract"(%x, %weight) {spec = "mk,kn->mn"} : (tensor<2x4xf32>, tensor<4x2xf32>) -> tensor<2x2xf32> loc(fused["integer-products.tir":7:8, "integer-products.tir":7:23])
    "func.return"(%y) : (tensor<2x2xf32>) -> () loc(fused["integer-products.tir":8:3, "integer-products.tir":8:9])
  }) {arg_names = ["q", "w"]} : () -> () loc(fused["integer-products.tir":1:6, "integer-products.tir":1:48])
}) : () -> () loc("integer-products.tir":0:0)
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "weights_that_are_not_known_stay_in_floats", function_type = (tensor<2x4xi8>, tensor<4x2xi8>) -> tensor<2x2xf32>}> ({
  ^bb0(%q: tensor<2x4xi8> loc(unknown), %w: tensor<4x2xi8> loc(unknown)):
    %half = "polyreme.tensor.full"() {value = 5.000000e-01 : f64, dtype = f32} : () -> tensor<f32> loc(fused["integer-products.tir":2:11, "integer-products.tir":2:22])
    %float = "polyreme.tensor.map"(%q) {fn = "cast", dtype = f32} : (tensor<2x4xi8>) -> tensor<2x4xf32> loc(fused["integer-products.tir":3:12, "integer-products.tir":3:22])
    %x = "polyreme.tensor.map"(%float, %half) {fn = "mul"} : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32> loc(fused["integer-products.tir":4:8, "integer-products.tir":4:18])
    %counts = "polyreme.tensor.map"(%w) {fn = "cast", dtype = f32} : (tensor<4x2xi8>) -> tensor<4x2xf32> loc(fused["integer-products.tir":5:13, "integer-products.tir":5:23])
    %weight = "polyreme.tensor.map"(%counts, %half) {fn = "mul"} : (tensor<4x2xf32>, tensor<f32>) -> tensor<4x2xf32> loc(fused["integer-products.tir":6:13, "integer-products.tir":6:23])
    %y = "polyreme.tensor.contract"(%x, %weight) {spec = "mk,kn->mn"} : (tensor<2x4xf32>, tensor<4x2xf32>) -> tensor<2x2xf32> loc(fused["integer-products.tir":7:8, "integer-products.tir":7:23])
    "func.return"(%y) : (tensor<2x2xf32>) -> () loc(fused["integer-products.tir":8:3, "integer-products.tir":8:9])
  }) {arg_names = ["q", "w"]} : () -> () loc(fused["integer-products.tir":1:6, "integer-products.tir":1:48])
}) : () -> () loc("integer-products.tir":0:0)
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "an_activation_moves_in_front_of_the_reshape_of_a_product", function_type = (tensor<?x4xf32, ["5*N"]>, tensor<4x8xf32>, tensor<?xf32, ["N"]>) -> tensor<?x5x8xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["5*N"]> loc(unknown), %w: tensor<4x8xf32> loc(unknown), %n: tensor<?xf32, ["N"]> loc(unknown)):
    %p = "polyreme.tensor.contract"(%x, %w) {spec = "mk,kn->mn"} : (tensor<?x4xf32, ["5*N"]>, tensor<4x8xf32>) -> tensor<?x8xf32, ["5*N"]> loc(fused["sink-reshapes.tir":3:8, "sink-reshapes.tir":3:23])
    %r = "polyreme.tensor.reshape"(%p) {shape = [#polyreme.size<"N">, 5 : i64, 8 : i64]} : (tensor<?x8xf32, ["5*N"]>) -> tensor<?x5x8xf32, ["N"]> loc(fused["sink-reshapes.tir":4:8, "sink-reshapes.tir":4:22])
    %y = "polyreme.tensor.map"(%r) {fn = "tanh"} : (tensor<?x5x8xf32, ["N"]>) -> tensor<?x5x8xf32, ["N"]> loc(fused["sink-reshapes.tir":5:8, "sink-reshapes.tir":5:18])
    "func.return"(%y) : (tensor<?x5x8xf32, ["N"]>) -> () loc(fused["sink-reshapes.tir":6:3, "sink-reshapes.tir":6:9])
  }) {arg_names = ["x", "w", "n"]} : () -> () loc(fused["sink-reshapes.tir":2:6, "sink-reshapes.tir":2:63])
}) : () -> () loc("sink-reshapes.tir":0:0)
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "an_activation_moves_in_front_of_the_reshape_of_a_product", function_type = (tensor<?x4xf32, ["5*N"]>, tensor<4x8xf32>, tensor<?xf32, ["N"]>) -> tensor<?x5x8xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["5*N"]> loc(unknown), %w: tensor<4x8xf32> loc(unknown), %n: tensor<?xf32, ["N"]> loc(unknown)):
    %p = "polyreme.tensor.contract"(%x, %w) {spec = "mk,kn->mn"} : (tensor<?x4xf32, ["5*N"]>, tensor<4x8xf32>) -> tensor<?x8xf32, ["5*N"]> loc(fused["sink-reshapes.tir":3:8, "sink-reshapes.tir":3:23])
    %y = "polyreme.tensor.map"(%p) {fn = "tanh"} : (tensor<?x8xf32, ["5*N"]>) -> tensor<?x8xf32, ["5*N"]> loc(fused["sink-reshapes.tir":5:8, "sink-reshapes.tir":5:18])
    %y_1 = "polyreme.tensor.reshape"(%y) {shape = [#polyreme.size<"N">, 5 : i64, 8 : i64]} : (tensor<?x8xf32, ["5*N"]>) -> tensor<?x5x8xf32, ["N"]> loc(fused["sink-reshapes.tir":5:8, "sink-reshapes.tir":5:18])
    "func.return"(%y_1) : (tensor<?x5x8xf32, ["N"]>) -> () loc(fused["sink-reshapes.tir":6:3, "sink-reshapes.tir":6:9])
  }) {arg_names = ["x", "w", "n"]} : () -> () loc(fused["sink-reshapes.tir":2:6, "sink-reshapes.tir":2:63])
}) : () -> () loc("sink-reshapes.tir":0:0)
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "a_bias_per_channel_is_split_as_the_groups_are", function_type = (tensor<2x3x4x5xf32>, tensor<3x5x6xf32>, tensor<1x12x1xf32>) -> tensor<2x12x6xf32>}> ({
  ^bb0(%x: tensor<2x3x4x5xf32> loc(unknown), %w: tensor<3x5x6xf32> loc(unknown), %c: tensor<1x12x1xf32> loc(unknown)):
    %p = "polyreme.tensor.contract"(%x, %w) {spec = "ngok,gkm->ngom"} : (tensor<2x3x4x5xf32>, tensor<3x5x6xf32>) -> tensor<2x3x4x6xf32> loc(fused["sink-reshapes.tir":2:8, "sink-reshapes.tir":2:23])
    %r = "polyreme.tensor.reshape"(%p) {shape = [2 : i64, 12 : i64, 6 : i64]} : (tensor<2x3x4x6xf32>) -> tensor<2x12x6xf32> loc(fused["sink-reshapes.tir":3:8, "sink-reshapes.tir":3:22])
    %y = "polyreme.tensor.map"(%r, %c) {fn = "add"} : (tensor<2x12x6xf32>, tensor<1x12x1xf32>) -> tensor<2x12x6xf32> loc(fused["sink-reshapes.tir":4:8, "sink-reshapes.tir":4:18])
    "func.return"(%y) : (tensor<2x12x6xf32>) -> () loc(fused["sink-reshapes.tir":5:3, "sink-reshapes.tir":5:9])
  }) {arg_names = ["x", "w", "c"]} : () -> () loc(fused["sink-reshapes.tir":1:6, "sink-reshapes.tir":1:52])
}) : () -> () loc("sink-reshapes.tir":0:0)
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "a_bias_per_channel_is_split_as_the_groups_are", function_type = (tensor<2x3x4x5xf32>, tensor<3x5x6xf32>, tensor<1x12x1xf32>) -> tensor<2x12x6xf32>}> ({
  ^bb0(%x: tensor<2x3x4x5xf32> loc(unknown), %w: tensor<3x5x6xf32> loc(unknown), %c: tensor<1x12x1xf32> loc(unknown)):
    %p = "polyreme.tensor.contract"(%x, %w) {spec = "ngok,gkm->ngom"} : (tensor<2x3x4x5xf32>, tensor<3x5x6xf32>) -> tensor<2x3x4x6xf32> loc(fused["sink-reshapes.tir":2:8, "sink-reshapes.tir":2:23])
    %0 = "polyreme.tensor.reshape"(%c) {shape = [1 : i64, 3 : i64, 4 : i64, 1 : i64]} : (tensor<1x12x1xf32>) -> tensor<1x3x4x1xf32> loc(fused["sink-reshapes.tir":4:8, "sink-reshapes.tir":4:18])
    %y = "polyreme.tensor.map"(%p, %0) {fn = "add"} : (tensor<2x3x4x6xf32>, tensor<1x3x4x1xf32>) -> tensor<2x3x4x6xf32> loc(fused["sink-reshapes.tir":4:8, "sink-reshapes.tir":4:18])
    %y_1 = "polyreme.tensor.reshape"(%y) {shape = [2 : i64, 12 : i64, 6 : i64]} : (tensor<2x3x4x6xf32>) -> tensor<2x12x6xf32> loc(fused["sink-reshapes.tir":4:8, "sink-reshapes.tir":4:18])
    "func.return"(%y_1) : (tensor<2x12x6xf32>) -> () loc(fused["sink-reshapes.tir":5:3, "sink-reshapes.tir":5:9])
  }) {arg_names = ["x", "w", "c"]} : () -> () loc(fused["sink-reshapes.tir":1:6, "sink-reshapes.tir":1:52])
}) : () -> () loc("sink-reshapes.tir":0:0)
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "what_is_not_a_product_keeps_its_shape", function_type = (tensor<6x4xf32>) -> tensor<24xf32>}> ({
  ^bb0(%x: tensor<6x4xf32> loc(unknown)):
    %r = "polyreme.tensor.reshape"(%x) {shape = [24 : i64]} : (tensor<6x4xf32>) -> tensor<24xf32> loc(fused["sink-reshapes.tir":2:8, "sink-reshapes.tir":2:22])
    %y = "polyreme.tensor.map"(%r) {fn = "tanh"} : (tensor<24xf32>) -> tensor<24xf32> loc(fused["sink-reshapes.tir":3:8, "sink-reshapes.tir":3:18])
    "func.return"(%y) : (tensor<24xf32>) -> () loc(fused["sink-reshapes.tir":4:3, "sink-reshapes.tir":4:9])
  }) {arg_names = ["x"]} : () -> () loc(fused["sink-reshapes.tir":1:6, "sink-reshapes.tir":1:44])
}) : () -> () loc("sink-reshapes.tir":0:0)
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "what_is_not_a_product_keeps_its_shape", function_type = (tensor<6x4xf32>) -> tensor<24xf32>}> ({
  ^bb0(%x: tensor<6x4xf32> loc(unknown)):
    %r = "polyreme.tensor.reshape"(%x) {shape = [24 : i64]} : (tensor<6x4xf32>) -> tensor<24xf32> loc(fused["sink-reshapes.tir":2:8, "sink-reshapes.tir":2:22])
    %y = "polyreme.tensor.map"(%r) {fn = "tanh"} : (tensor<24xf32>) -> tensor<24xf32> loc(fused["sink-reshapes.tir":3:8, "sink-reshapes.tir":3:18])
    "func.return"(%y) : (tensor<24xf32>) -> () loc(fused["sink-reshapes.tir":4:3, "sink-reshapes.tir":4:9])
  }) {arg_names = ["x"]} : () -> () loc(fused["sink-reshapes.tir":1:6, "sink-reshapes.tir":1:44])
}) : () -> () loc("sink-reshapes.tir":0:0)
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "double", function_type = (tensor<?x?xf32, ["M", "K"]>) -> tensor<?x?xf32, ["2*M", "K"]>}> ({
  ^bb0(%x: tensor<?x?xf32, ["M", "K"]> loc(unknown)):
    %y = "polyreme.tensor.concat"(%x, %x) {axis = 0 : i64} : (tensor<?x?xf32, ["M", "K"]>, tensor<?x?xf32, ["M", "K"]>) -> tensor<?x?xf32, ["2*M", "K"]> loc(fused["calls.tir":6:8, "calls.tir":6:21])
    "func.return"(%y) : (tensor<?x?xf32, ["2*M", "K"]>) -> () loc(fused["calls.tir":7:3, "calls.tir":7:9])
  }) {arg_names = ["x"]} : () -> () loc(fused["calls.tir":5:6, "calls.tir":5:13])
  "func.func"() <{sym_name = "main", function_type = (tensor<?x?xf32, ["N", "K"]>) -> (tensor<?x?xf32, ["2*N", "K"]>, tensor<i64>)}> ({
  ^bb0(%x: tensor<?x?xf32, ["N", "K"]> loc(unknown)):
    %y = "polyreme.func.call"(%x) {callee = @double} : (tensor<?x?xf32, ["N", "K"]>) -> tensor<?x?xf32, ["2*N", "K"]> loc(fused["calls.tir":10:8, "calls.tir":10:17])
    %z = "polyreme.tensor.map"(%y, %y) {fn = "add"} : (tensor<?x?xf32, ["2*N", "K"]>, tensor<?x?xf32, ["2*N", "K"]>) -> tensor<?x?xf32, ["2*N", "K"]> loc(fused["calls.tir":11:8, "calls.tir":11:18])
    %w = "polyreme.tensor.map"(%z) {fn = "neg"} : (tensor<?x?xf32, ["2*N", "K"]>) -> tensor<?x?xf32, ["2*N", "K"]> loc(fused["calls.tir":12:8, "calls.tir":12:18])
    %n = "polyreme.tensor.dim_value"() {size = #polyreme.size<"2*N">, dtype = i64} : () -> tensor<i64> loc(fused["calls.tir":13:8, "calls.tir":13:24])
    "func.return"(%w, %n) : (tensor<?x?xf32, ["2*N", "K"]>, tensor<i64>) -> () loc(fused["calls.tir":14:3, "calls.tir":14:9])
  }) {arg_names = ["x"]} : () -> () loc(fused["calls.tir":9:6, "calls.tir":9:11])
}) : () -> () loc("calls.tir":0:0)
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "sum_rows", function_type = (!polyreme.buffer<?x?xf32, ["N", "K"]>, !polyreme.buffer<?xf32, ["N"]>) -> ()}> ({
  ^bb0(%x: !polyreme.buffer<?x?xf32, ["N", "K"]> loc(unknown), %y: !polyreme.buffer<?xf32, ["N"]> loc(unknown)):
    %n = "polyreme.kernel.size"() {value = #polyreme.size<"N">} : () -> index loc(fused["calls.tir":5:8, "calls.tir":5:19])
    %k = "polyreme.kernel.size"() {value = #polyreme.size<"K">} : () -> index loc(fused["calls.tir":6:8, "calls.tir":6:19])
    %first = "polyreme.kernel.size"() {value = 0 : i64} : () -> index loc(fused["calls.tir":7:12, "calls.tir":7:23])
    %zero = "polyreme.kernel.constant"() {value = 0.000000e+00 : f64, dtype = f32} : () -> f32 loc(fused["calls.tir":8:11, "calls.tir":8:26])
    "polyreme.kernel.parallel"(%n) ({
    ^bb0(%i: index loc(unknown)):
      %row = "polyreme.kernel.apply"(%i, %k) {fn = "mul"} : (index, index) -> index loc(fused["calls.tir":10:12, "calls.tir":10:24])
      %sum = "polyreme.kernel.for"(%first, %k, %zero) ({
      ^bb0(%j: index loc(unknown), %acc: f32 loc(unknown)):
        %at = "polyreme.kernel.apply"(%row, %j) {fn = "add"} : (index, index) -> index loc(fused["calls.tir":12:13, "calls.tir":12:25])
        %v = "polyreme.kernel.load"(%x, %at) {lanes = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 0>} : (!polyreme.buffer<?x?xf32, ["N", "K"]>, index) -> f32 loc(fused["calls.tir":13:12, "calls.tir":13:23])
        %next = "polyreme.kernel.apply"(%acc, %v) {fn = "add"} : (f32, f32) -> f32 loc(fused["calls.tir":14:15, "calls.tir":14:27])
        "polyreme.kernel.yield"(%next) : (f32) -> () loc(fused["calls.tir":15:7, "calls.tir":15:19])
      }) {step = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1>} : (index, index, f32) -> f32 loc(fused["calls.tir":11:12, "calls.tir":11:22])
      "polyreme.kernel.store"(%sum, %y, %i) {streaming = false, operandSegmentSizes = array<i32: 1, 1, 1, 0>} : (f32, !polyreme.buffer<?xf32, ["N"]>, index) -> () loc(fused["calls.tir":17:5, "calls.tir":17:17])
      "polyreme.kernel.yield"() : () -> () loc(fused["calls.tir":18:5, "calls.tir":18:17])
    }) {grain = 1 : i64} : (index) -> () loc(fused["calls.tir":9:3, "calls.tir":9:18])
    "func.return"() : () -> () loc(fused["calls.tir":20:3, "calls.tir":20:9])
  }) {arg_names = ["x", "y"]} : () -> () loc(fused["calls.tir":4:6, "calls.tir":4:15])
  "func.func"() <{sym_name = "main", function_type = (!polyreme.buffer<?x?xf32, ["N", "K"]>, !polyreme.buffer<?xf32, ["N"]>) -> ()}> ({
  ^bb0(%x: !polyreme.buffer<?x?xf32, ["N", "K"]> loc(unknown), %y: !polyreme.buffer<?xf32, ["N"]> loc(unknown)):
    "polyreme.kernel.call"(%x, %y) {callee = @sum_rows} : (!polyreme.buffer<?x?xf32, ["N", "K"]>, !polyreme.buffer<?xf32, ["N"]>) -> () loc(fused["calls.tir":23:3, "calls.tir":23:14])
    "func.return"() : () -> () loc(fused["calls.tir":24:3, "calls.tir":24:9])
  }) {arg_names = ["x", "y"], arg_roles = ["input", "output"]} : () -> () loc(fused["calls.tir":22:6, "calls.tir":22:11])
}) : () -> () loc("calls.tir":0:0)
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "numbers", function_type = () -> ()}> ({
    %a = "polyreme.tensor.full"() {value = 1 : i64, shape = [2 : i64], dtype = i32} : () -> tensor<2xi32> loc(fused["attributes.tir":4:8, "attributes.tir":4:19])
    %b = "polyreme.tensor.full"() {value = 1.000000e+00 : f64, dtype = f32} : () -> tensor<f32> loc(fused["attributes.tir":5:8, "attributes.tir":5:19])
    %c = "polyreme.tensor.full"() {value = true, shape = [2 : i64], dtype = i1} : () -> tensor<2xi1> loc(fused["attributes.tir":6:8, "attributes.tir":6:19])
    %d = "polyreme.tensor.full"() {value = 0xfff0000000000000 : f64, shape = [2 : i64], dtype = f32} : () -> tensor<2xf32> loc(fused["attributes.tir":7:8, "attributes.tir":7:19])
    %e = "polyreme.tensor.full"() {value = 0x7ff8000000000000 : f64, shape = [2 : i64], dtype = f64} : () -> tensor<2xf64> loc(fused["attributes.tir":8:8, "attributes.tir":8:19])
    %f = "polyreme.tensor.full"() {value = -1.500000e-300 : f64, shape = [0 : i64], dtype = f64} : () -> tensor<0xf64> loc(fused["attributes.tir":9:8, "attributes.tir":9:19])
    %g = "polyreme.tensor.full"() {value = 1.000000e+22 : f64, dtype = f64} : () -> tensor<f64> loc(fused["attributes.tir":10:8, "attributes.tir":10:19])
    "func.return"() : () -> () loc(fused["attributes.tir":11:3, "attributes.tir":11:9])
  }) : () -> () loc(fused["attributes.tir":3:6, "attributes.tir":3:14])
}) : () -> () loc("attributes.tir":0:0)
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "sizes", function_type = (tensor<?x?x?xf32, ["N", "2*T+1", "T"]>, tensor<?x?x?xi64, ["inf", "f32", "true"]>) -> ()}> ({
  ^bb0(%x: tensor<?x?x?xf32, ["N", "2*T+1", "T"]> loc(unknown), %y: tensor<?x?x?xi64, ["inf", "f32", "true"]> loc(unknown)):
    %a = "polyreme.tensor.full"() {value = 0.000000e+00 : f64, shape = [#polyreme.size<"2*N+1">, #polyreme.size<"N*T-T">, #polyreme.size<"2*N-1">], dtype = f32} : () -> tensor<?x?x?xf32, ["2*N+1", "N*T-T", "2*N-1"]> loc(fused["attributes.tir":3:8, "attributes.tir":3:19])
    %b = "polyreme.tensor.full"() {value = 0.000000e+00 : f64, shape = [#polyreme.size<"inf">, #polyreme.size<"f32">, #polyreme.size<"true">], dtype = f32} : () -> tensor<?x?x?xf32, ["inf", "f32", "true"]> loc(fused["attributes.tir":4:8, "attributes.tir":4:19])
    %c = "polyreme.tensor.full"() {value = 0.000000e+00 : f64, shape = [#polyreme.size<"max(2*T, N)">, #polyreme.size<"floordiv(N, 2)">, #polyreme.size<"mod(N, T)">], dtype = bf16} : () -> tensor<?x?x?xbf16, ["max(2*T, N)", "floordiv(N, 2)", "mod(N, T)"]> loc(fused["attributes.tir":5:8, "attributes.tir":5:19])
    "func.return"() : () -> () loc(fused["attributes.tir":6:3, "attributes.tir":6:9])
  }) {arg_names = ["x", "y"]} : () -> () loc(fused["attributes.tir":2:6, "attributes.tir":2:12])
}) : () -> () loc("attributes.tir":0:0)
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "boxes", function_type = (tensor<?x4xf32, ["box"]>, tensor<index>, tensor<2xcomplex<f64>>) -> ()}> ({
  ^bb0(%x: tensor<?x4xf32, ["box"]> loc(unknown), %y: tensor<index> loc(unknown), %z: tensor<2xcomplex<f64>> loc(unknown)):
    "func.return"() : () -> () loc(fused["attributes.tir":3:3, "attributes.tir":3:9])
  }) {arg_names = ["x", "y", "z"]} : () -> () loc(fused["attributes.tir":2:6, "attributes.tir":2:12])
}) : () -> () loc("attributes.tir":0:0)
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "two words", function_type = (tensor<4xf32>) -> tensor<4xf32>}> ({
  ^bb0(%x: tensor<4xf32> loc(unknown)):
    "func.return"(%x) : (tensor<4xf32>) -> () loc(fused["attributes.tir":3:3, "attributes.tir":3:9])
  }) {arg_names = ["x"]} : () -> () loc(fused["attributes.tir":2:6, "attributes.tir":2:18])
  "func.func"() <{sym_name = "main", function_type = (tensor<4xf32>) -> tensor<4xf32>}> ({
  ^bb0(%x: tensor<4xf32> loc(unknown)):
    %y = "polyreme.func.call"(%x) {callee = @"two words"} : (tensor<4xf32>) -> tensor<4xf32> loc(fused["attributes.tir":6:8, "attributes.tir":6:17])
    "func.return"(%y) : (tensor<4xf32>) -> () loc(fused["attributes.tir":7:3, "attributes.tir":7:9])
  }) {arg_names = ["x"]} : () -> () loc(fused["attributes.tir":5:6, "attributes.tir":5:11])
}) : () -> () loc("attributes.tir":0:0)
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "small", function_type = () -> ()}> ({
    %a = "polyreme.tensor.constant"() {value = dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi64>} : () -> tensor<2x3xi64> loc(fused["constants.tir":4:8, "constants.tir":4:23])
    %b = "polyreme.tensor.constant"() {value = dense<1.000000e-01> : tensor<100x100xf32>} : () -> tensor<100x100xf32> loc(fused["constants.tir":5:8, "constants.tir":5:23])
    %c = "polyreme.tensor.constant"() {value = dense<[true, false]> : tensor<2xi1>} : () -> tensor<2xi1> loc(fused["constants.tir":6:8, "constants.tir":6:23])
    %d = "polyreme.tensor.constant"() {value = dense_resource<m54_d> : tensor<6xf32>} : () -> tensor<6xf32> loc(fused["constants.tir":7:8, "constants.tir":7:23])
    %e = "polyreme.tensor.constant"() {value = dense<[(1.000000e+00,2.000000e+00), (5.000000e-01,-1.000000e+00)]> : tensor<2xcomplex<f32>>} : () -> tensor<2xcomplex<f32>> loc(fused["constants.tir":8:8, "constants.tir":8:23])
    %f = "polyreme.tensor.constant"() {value = dense<> : tensor<3x0xf32>} : () -> tensor<3x0xf32> loc(fused["constants.tir":9:8, "constants.tir":9:23])
    %g = "polyreme.tensor.constant"() {value = dense<2.500000e+00> : tensor<f32>} : () -> tensor<f32> loc(fused["constants.tir":10:8, "constants.tir":10:23])
    %h = "polyreme.tensor.constant"() {value = dense<[18446744073709551615, 0]> : tensor<2xui64>} : () -> tensor<2xui64> loc(fused["constants.tir":11:8, "constants.tir":11:23])
    %i = "polyreme.tensor.constant"() {value = dense<[1.500000e+00, 3.250000e+00]> : tensor<2xbf16>} : () -> tensor<2xbf16> loc(fused["constants.tir":12:8, "constants.tir":12:23])
    "func.return"() : () -> () loc(fused["constants.tir":13:3, "constants.tir":13:9])
  }) : () -> () loc(fused["constants.tir":3:6, "constants.tir":3:12])
}) : () -> () loc("constants.tir":0:0)

{-#
  dialect_resources: {
    builtin: {
      m54_d: "0x400000000000803F000000800000807F000080FF0000C07F01000000"
    }
  }
#-}
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "bytes", function_type = () -> ()}> ({
    %a = "polyreme.tensor.constant"() {value = dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>} : () -> tensor<2xf32> loc(fused["constants.tir":3:8, "constants.tir":3:23])
    %b = "polyreme.tensor.constant"() {value = dense_resource<m55_b> : tensor<2xf32>} : () -> tensor<2xf32> loc(fused["constants.tir":4:8, "constants.tir":4:23])
    "func.return"() : () -> () loc(fused["constants.tir":5:3, "constants.tir":5:9])
  }) : () -> () loc(fused["constants.tir":2:6, "constants.tir":2:12])
}) : () -> () loc("constants.tir":0:0)

{-#
  dialect_resources: {
    builtin: {
      m55_b: "0x400000000100C07F00000040"
    }
  }
#-}
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "main", function_type = (tensor<?x4xf32, ["N"]>, tensor<?xf32, ["2*N"]>) -> tensor<?x8xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]> loc(unknown), %y: tensor<?xf32, ["2*N"]> loc(unknown)):
    %a = "polyreme.tensor.map"(%x) {fn = "neg"} : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]> loc(fused["generic.tir":6:10, "generic.tir":6:31])
    %b = "polyreme.tensor.concat"(%a, %x) {axis = 1 : i64} : (tensor<?x4xf32, ["N"]>, tensor<?x4xf32, ["N"]>) -> tensor<?x8xf32, ["N"]> loc(fused["generic.tir":7:10, "generic.tir":7:34])
    %c = "polyreme.tensor.full"() {value = 0x7ff0000000000000 : f64, shape = [#polyreme.size<"2*N">, 3 : i64], dtype = f32} : () -> tensor<?x3xf32, ["2*N"]> loc(fused["generic.tir":8:10, "generic.tir":8:32])
    "func.return"(%b) : (tensor<?x8xf32, ["N"]>) -> () loc(fused["generic.tir":9:5, "generic.tir":9:18])
  }) {arg_names = ["x", "y"]} : () -> () loc(fused["generic.tir":4:3, "generic.tir":4:14])
}) : () -> () loc(fused["generic.tir":3:1, "generic.tir":3:17])
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "main", function_type = (!polyreme.buffer<?x4xf32, ["N"]>) -> ()}> ({
  ^bb0(%x: !polyreme.buffer<?x4xf32, ["N"]> loc(unknown)):
    %n = "polyreme.kernel.size"() {value = #polyreme.size<"4*N">} : () -> index loc(fused["generic.tir":4:8, "generic.tir":4:30])
    "polyreme.kernel.parallel"(%n) ({
    ^bb0(%i: index loc(unknown)):
      "polyreme.kernel.yield"() : () -> () loc(fused["generic.tir":7:5, "generic.tir":7:28])
    }) {grain = 1 : i64} : (index) -> () loc(fused["generic.tir":5:3, "generic.tir":5:29])
    "func.return"() : () -> () loc(fused["generic.tir":9:3, "generic.tir":9:16])
  }) {arg_names = ["x"]} : () -> () loc(fused["generic.tir":2:1, "generic.tir":2:12])
}) : () -> () loc("generic.tir":0:0)
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "main", function_type = (tensor<4xf32>) -> tensor<4xf32>}> ({
  ^bb0(%x: tensor<4xf32> loc(unknown)):
    %a = "polyreme.tensor.map"(%x) {fn = "exp"} : (tensor<4xf32>) -> tensor<4xf32> loc("model.py":3:14)
    %b = "polyreme.tensor.map"(%a) {fn = "exp"} : (tensor<4xf32>) -> tensor<4xf32> loc(fused["model.py":3:14, "model.py":3:19])
    %c = "polyreme.tensor.map"(%b) {fn = "exp"} : (tensor<4xf32>) -> tensor<4xf32> loc("features.0"("a \22quoted\22 file\\name.py":3:14))
    %d = "polyreme.tensor.map"(%c) {fn = "exp"} : (tensor<4xf32>) -> tensor<4xf32> loc("features.0")
    %e = "polyreme.tensor.map"(%d) {fn = "exp"} : (tensor<4xf32>) -> tensor<4xf32> loc(unknown)
    "func.return"(%e) : (tensor<4xf32>) -> () loc(fused["locations.tir":8:3, "locations.tir":8:9])
  }) {arg_names = ["x"]} : () -> () loc("model.py":1:1)
}) : () -> () loc("locations.tir":0:0)
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "scale", function_type = (!polyreme.buffer<64xf32>, !polyreme.buffer<64xf32>, i1) -> ()}> ({
  ^bb0(%x: !polyreme.buffer<64xf32> loc(unknown), %y: !polyreme.buffer<64xf32> loc(unknown), %flag: i1 loc(unknown)):
    %lo = "polyreme.kernel.size"() {value = 0 : i64} : () -> index loc(fused["regions.tir":4:9, "regions.tir":4:20])
    %hi = "polyreme.kernel.size"() {value = 64 : i64} : () -> index loc(fused["regions.tir":5:9, "regions.tir":5:20])
    %zero = "polyreme.kernel.constant"() {value = 0.000000e+00 : f64, dtype = f32} : () -> f32 loc(fused["regions.tir":6:11, "regions.tir":6:26])
    %sum = "polyreme.kernel.for"(%lo, %hi, %zero) ({
    ^bb0(%i: index loc(unknown), %acc: f32 loc(unknown)):
      %v = "polyreme.kernel.load"(%x, %i) {lanes = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 0>} : (!polyreme.buffer<64xf32>, index) -> f32 loc(fused["regions.tir":8:10, "regions.tir":8:21])
      %next = "polyreme.kernel.apply"(%acc, %v) {fn = "add"} : (f32, f32) -> f32 loc(fused["regions.tir":9:13, "regions.tir":9:25])
      "polyreme.kernel.store"(%next, %y, %i) {streaming = false, operandSegmentSizes = array<i32: 1, 1, 1, 0>} : (f32, !polyreme.buffer<64xf32>, index) -> () loc(fused["regions.tir":10:5, "regions.tir":10:17])
      "polyreme.kernel.yield"(%next) : (f32) -> () loc(fused["regions.tir":11:5, "regions.tir":11:17])
    }) {step = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1>} : (index, index, f32) -> f32 loc(fused["regions.tir":7:10, "regions.tir":7:20])
    %r = "polyreme.kernel.if"(%flag) ({
      "polyreme.kernel.yield"(%sum) : (f32) -> () loc(fused["regions.tir":14:5, "regions.tir":14:17])
    }, {
      "polyreme.kernel.yield"(%zero) : (f32) -> () loc(fused["regions.tir":16:5, "regions.tir":16:17])
    }) : (i1) -> f32 loc(fused["regions.tir":13:8, "regions.tir":13:17])
    "func.return"() : () -> () loc(fused["regions.tir":18:3, "regions.tir":18:9])
  }) {arg_names = ["x", "y", "flag"]} : () -> () loc(fused["regions.tir":3:6, "regions.tir":3:12])
}) : () -> () loc("regions.tir":0:0)
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "view", function_type = (!polyreme.buffer<64xf32>, index) -> ()}> ({
  ^bb0(%x: !polyreme.buffer<64xf32> loc(unknown), %i: index loc(unknown)):
    %v = "polyreme.kernel.view"(%x) {shape = [8 : i64], operandSegmentSizes = array<i32: 1, 0>} : (!polyreme.buffer<64xf32>) -> !polyreme.buffer<8xf32> loc(fused["regions.tir":3:8, "regions.tir":3:19])
    "func.return"() : () -> () loc(fused["regions.tir":4:3, "regions.tir":4:9])
  }) {arg_names = ["x", "i"]} : () -> () loc(fused["regions.tir":2:6, "regions.tir":2:11])
}) : () -> () loc("regions.tir":0:0)
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "numbers", function_type = () -> ()}> ({
    %a = "polyreme.tensor.full"() {value = 18446744073709551615 : ui64, shape = [1 : i64], dtype = ui64} : () -> tensor<1xui64> loc(fused["tools.tir":4:8, "tools.tir":4:19])
    %b = "polyreme.tensor.full"() {value = -9223372036854775808 : i64, shape = [1 : i64], dtype = i64} : () -> tensor<1xi64> loc(fused["tools.tir":5:8, "tools.tir":5:19])
    %c = "polyreme.tensor.full"() {value = 1.000000e-01 : f64, shape = [1 : i64], dtype = f64} : () -> tensor<1xf64> loc(fused["tools.tir":6:8, "tools.tir":6:19])
    %d = "polyreme.tensor.full"() {value = 4.940660e-324 : f64, shape = [1 : i64], dtype = f64} : () -> tensor<1xf64> loc(fused["tools.tir":7:8, "tools.tir":7:19])
    %e = "polyreme.tensor.full"() {value = -0.000000e+00 : f64, shape = [1 : i64], dtype = f64} : () -> tensor<1xf64> loc(fused["tools.tir":8:8, "tools.tir":8:19])
    %f = "polyreme.tensor.full"() {value = 0x419D6F3454000000 : f64, shape = [1 : i64], dtype = f64} : () -> tensor<1xf64> loc(fused["tools.tir":9:8, "tools.tir":9:19])
    %g = "polyreme.tensor.full"() {value = 1.000000e-01 : f64, shape = [1 : i64], dtype = bf16} : () -> tensor<1xbf16> loc(fused["tools.tir":10:8, "tools.tir":10:19])
    "func.return"() : () -> () loc(fused["tools.tir":11:3, "tools.tir":11:9])
  }) : () -> () loc(fused["tools.tir":3:6, "tools.tir":3:14])
}) : () -> () loc("tools.tir":0:0)
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "elements", function_type = () -> ()}> ({
    %a = "polyreme.tensor.constant"() {value = dense<[0x4B800000, 1.401300e-45, 3.40282347e+38]> : tensor<3xf32>} : () -> tensor<3xf32> loc(fused["tools.tir":2:8, "tools.tir":2:23])
    %b = "polyreme.tensor.constant"() {value = dense_resource<m62_b> : tensor<2xcomplex<f64>>} : () -> tensor<2xcomplex<f64>> loc(fused["tools.tir":3:8, "tools.tir":3:23])
    %c = "polyreme.tensor.constant"() {value = dense_resource<m62_c> : tensor<2xf32>} : () -> tensor<2xf32> loc(fused["tools.tir":4:8, "tools.tir":4:23])
    %d = "polyreme.tensor.constant"() {value = dense<[-9223372036854775807, 3]> : tensor<2xi64>} : () -> tensor<2xi64> loc(fused["tools.tir":5:8, "tools.tir":5:23])
    %e = "polyreme.tensor.constant"() {value = dense_resource<m62_e> : tensor<3xf16>} : () -> tensor<3xf16> loc(fused["tools.tir":6:8, "tools.tir":6:23])
    %f = "polyreme.tensor.constant"() {value = dense_resource<m62_f> : tensor<2x2xf32>} : () -> tensor<2x2xf32> loc(fused["tools.tir":7:8, "tools.tir":7:23])
    %g = "polyreme.tensor.constant"() {value = dense<1.000000e+00> : tensor<1x1x1x1x1xf64>} : () -> tensor<1x1x1x1x1xf64> loc(fused["tools.tir":8:8, "tools.tir":8:23])
    %h = "polyreme.tensor.constant"() {value = dense<> : tensor<0x3xi1>} : () -> tensor<0x3xi1> loc(fused["tools.tir":9:8, "tools.tir":9:23])
    "func.return"() : () -> () loc(fused["tools.tir":10:3, "tools.tir":10:9])
  }) : () -> () loc(fused["tools.tir":1:6, "tools.tir":1:15])
}) : () -> () loc("tools.tir":0:0)

{-#
  dialect_resources: {
    builtin: {
      m62_b: "0x40000000000000000000F87F000000000000F03F000000000000F0FF0000000000000080",m62_c: "0x400000000100807F0200C0FF",m62_e: "0x40000000662EFFFB007C",m62_f: "0x400000000100C07F0100C07F0100C07F0100C07F"
    }
  }
#-}
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "resources", function_type = () -> ()}> ({
    %weight = "polyreme.tensor.constant"() {value = dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>} : () -> tensor<2xf32> loc(fused["tools.tir":3:13, "tools.tir":3:28])
    %other = "polyreme.tensor.constant"() {value = dense<[true, false]> : tensor<2xi1>} : () -> tensor<2xi1> loc(fused["tools.tir":4:12, "tools.tir":4:27])
    %again = "polyreme.tensor.constant"() {value = dense<[1065353216, 1073741824]> : tensor<2xi32>} : () -> tensor<2xi32> loc(fused["tools.tir":5:12, "tools.tir":5:27])
    "func.return"() : () -> () loc(fused["tools.tir":6:3, "tools.tir":6:9])
  }) : () -> () loc(fused["tools.tir":2:6, "tools.tir":2:16])
}) : () -> () loc("tools.tir":0:0)
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "conv.1x1-relu", function_type = () -> ()}> ({
    "func.return"() : () -> () loc(fused["tools.tir":3:3, "tools.tir":3:9])
  }) : () -> () loc(fused["tools.tir":2:6, "tools.tir":2:22])
  "func.func"() <{sym_name = "a \22b\22 \\ \0A\09\00\7F", function_type = () -> ()}> ({
    "polyreme.func.call"() {callee = @"conv.1x1-relu"} : () -> () loc(fused["tools.tir":6:3, "tools.tir":6:12])
    "func.return"() : () -> () loc(fused["tools.tir":7:3, "tools.tir":7:9])
  }) : () -> () loc(fused["tools.tir":5:6, "tools.tir":5:30])
  "func.func"() <{sym_name = "\C3\A9 \C3\A9 \F0\9F\98\80", function_type = () -> ()}> ({
    "func.return"() : () -> () loc(fused["tools.tir":10:3, "tools.tir":10:9])
  }) : () -> () loc(fused["tools.tir":9:6, "tools.tir":9:30])
  "func.func"() <{sym_name = "strings", function_type = (tensor<4xf32>) -> ()}> ({
  ^bb0(%x: tensor<4xf32> loc(unknown)):
    "func.return"() : () -> () loc(fused["tools.tir":13:3, "tools.tir":13:9])
  }) {arg_names = ["\C3\A9 \22\F0\9F\98\80\22 \\ \01"]} : () -> () loc(fused["tools.tir":12:6, "tools.tir":12:14])
}) : () -> () loc("tools.tir":0:0)
// -----
"builtin.module"() <{sym_name = "net"}> ({
  "func.func"() <{sym_name = "draw", function_type = (tensor<313xui64>) -> (tensor<4xf32>, tensor<313xui64>)}> ({
  ^bb0(%seed: tensor<313xui64> loc(unknown)):
    %0, %1 = "polyreme.tensor.random"(%seed) {shape = [4 : i64], low = 0.000000e+00 : f64, high = 1.000000e+00 : f64, dtype = f32} : (tensor<313xui64>) -> (tensor<4xf32>, tensor<313xui64>) loc("layer"("m.py":7:1))
    "func.return"(%0, %1) : (tensor<4xf32>, tensor<313xui64>) -> () loc(fused["m.py":7:1, "m.py":7:9])
  }) {arg_names = ["seed"]} : () -> () loc(unknown)
}) : () -> () loc(unknown)
// -----
"builtin.module"() ({
^bb0:
}) : () -> () loc(fused["tools.tir":2:1, "tools.tir":2:7])
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "names", function_type = (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)}> ({
  ^bb0(%x: tensor<4xf32> loc(unknown), %fc.weight: tensor<4xf32> loc(unknown)):
    %0 = "polyreme.tensor.map"(%x, %fc.weight) {fn = "add"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc(fused["values.tir":4:8, "values.tir":4:18])
    %y = "polyreme.tensor.map"(%0) {fn = "exp"} : (tensor<4xf32>) -> tensor<4xf32> loc(fused["values.tir":5:8, "values.tir":5:18])
    %1 = "polyreme.tensor.map"(%y) {fn = "neg"} : (tensor<4xf32>) -> tensor<4xf32> loc(fused["values.tir":6:9, "values.tir":6:19])
    "func.return"(%y, %1) : (tensor<4xf32>, tensor<4xf32>) -> () loc(fused["values.tir":7:3, "values.tir":7:9])
  }) {arg_names = ["x", "fc.weight"]} : () -> () loc(fused["values.tir":3:6, "values.tir":3:12])
}) : () -> () loc("values.tir":0:0)
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "first", function_type = (tensor<4xf32>) -> tensor<4xf32>}> ({
  ^bb0(%x: tensor<4xf32> loc(unknown)):
    "func.return"(%x) : (tensor<4xf32>) -> () loc(fused["values.tir":3:3, "values.tir":3:9])
  }) {arg_names = ["x"]} : () -> () loc(fused["values.tir":2:6, "values.tir":2:12])
  "func.func"() <{sym_name = "second", function_type = (tensor<4xf32>) -> tensor<4xf32>}> ({
  ^bb0(%x: tensor<4xf32> loc(unknown)):
    "func.return"(%x) : (tensor<4xf32>) -> () loc(fused["values.tir":6:3, "values.tir":6:9])
  }) {arg_names = ["x"]} : () -> () loc(fused["values.tir":5:6, "values.tir":5:13])
}) : () -> () loc("values.tir":0:0)
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "main", function_type = (tensor<?x1x28x28xf32, ["N"]>, tensor<10x784xf32>, tensor<10xf32>, tensor<f32>) -> tensor<10xf32>}> ({
  ^bb0(%image: tensor<?x1x28x28xf32, ["N"]> loc(unknown), %weight: tensor<10x784xf32> loc(unknown), %bias: tensor<10xf32> loc(unknown), %scale: tensor<f32> loc(unknown)):
    "func.return"(%bias) : (tensor<10xf32>) -> () loc(fused["values.tir":6:3, "values.tir":6:9])
  }) {arg_names = ["image", "weight", "bias", "scale"], result_names = ["same"], arg_roles = ["input", "param", "param", "input"]} : () -> () loc(fused["values.tir":2:6, "values.tir":2:11])
}) : () -> () loc("values.tir":0:0)
// -----
"builtin.module"() <{sym_name = "net"}> ({
  "func.func"() <{sym_name = "draw", function_type = (tensor<313xui64>) -> (tensor<4xf32>, tensor<313xui64>)}> ({
  ^bb0(%s: tensor<313xui64> loc(unknown)):
    %v, %s2 = "polyreme.tensor.random"(%s) {shape = [4 : i64], low = 0.000000e+00 : f64, high = 1.000000e+00 : f64, dtype = f32} : (tensor<313xui64>) -> (tensor<4xf32>, tensor<313xui64>) loc(fused["values.tir":4:15, "values.tir":4:28])
    "func.return"(%v, %s2) : (tensor<4xf32>, tensor<313xui64>) -> () loc(fused["values.tir":5:5, "values.tir":5:11])
  }) {arg_names = ["s"]} : () -> () loc(fused["values.tir":3:8, "values.tir":3:13])
}) : () -> () loc(fused["values.tir":2:8, "values.tir":2:12])
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "double", function_type = (tensor<?x4xf32, ["M"]>) -> tensor<?x4xf32, ["2*M"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["M"]> loc(unknown)):
    %y = "polyreme.tensor.concat"(%x, %x) {axis = 0 : i64} : (tensor<?x4xf32, ["M"]>, tensor<?x4xf32, ["M"]>) -> tensor<?x4xf32, ["2*M"]> loc(fused["calls.tir":4:8, "calls.tir":4:21])
    "func.return"(%y) : (tensor<?x4xf32, ["2*M"]>) -> () loc(fused["calls.tir":5:3, "calls.tir":5:9])
  }) {arg_names = ["x"]} : () -> () loc(fused["calls.tir":3:6, "calls.tir":3:13])
  "func.func"() <{sym_name = "main", function_type = (tensor<?x4xf32, ["N"]>, tensor<3x4xf32>) -> (tensor<?x4xf32, ["2*N"]>, tensor<6x4xf32>)}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]> loc(unknown), %z: tensor<3x4xf32> loc(unknown)):
    %y = "polyreme.func.call"(%x) {callee = @double} : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["2*N"]> loc(fused["calls.tir":8:8, "calls.tir":8:17])
    %w = "polyreme.func.call"(%z) {callee = @double} : (tensor<3x4xf32>) -> tensor<6x4xf32> loc(fused["calls.tir":9:8, "calls.tir":9:17])
    "func.return"(%y, %w) : (tensor<?x4xf32, ["2*N"]>, tensor<6x4xf32>) -> () loc(fused["calls.tir":10:3, "calls.tir":10:9])
  }) {arg_names = ["x", "z"]} : () -> () loc(fused["calls.tir":7:6, "calls.tir":7:11])
}) : () -> () loc("calls.tir":0:0)
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "clear", function_type = (!polyreme.buffer<?xf32, ["4*N"]>) -> ()}> ({
  ^bb0(%x: !polyreme.buffer<?xf32, ["4*N"]> loc(unknown)):
    %n = "polyreme.kernel.size"() {value = #polyreme.size<"4*N">} : () -> index loc(fused["sizes.tir":3:8, "sizes.tir":3:19])
    "func.return"() : () -> () loc(fused["sizes.tir":4:3, "sizes.tir":4:9])
  }) {arg_names = ["x"]} : () -> () loc(fused["sizes.tir":2:6, "sizes.tir":2:12])
  "func.func"() <{sym_name = "main", function_type = (!polyreme.buffer<?x4xf32, ["N"]>) -> ()}> ({
  ^bb0(%x: !polyreme.buffer<?x4xf32, ["N"]> loc(unknown)):
    "func.return"() : () -> () loc(fused["sizes.tir":7:3, "sizes.tir":7:9])
  }) {arg_names = ["x"]} : () -> () loc(fused["sizes.tir":6:6, "sizes.tir":6:11])
}) : () -> () loc("sizes.tir":0:0)
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "valid", function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]> loc(unknown)):
    %y = "polyreme.tensor.map"(%x) {fn = "exp"} : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]> loc(fused["values.tir":3:8, "values.tir":3:18])
    "func.return"(%y) : (tensor<?x4xf32, ["N"]>) -> () loc(fused["values.tir":4:3, "values.tir":4:9])
  }) {arg_names = ["x"]} : () -> () loc(fused["values.tir":2:6, "values.tir":2:12])
}) : () -> () loc("values.tir":0:0)
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "main", function_type = (tensor<4xf32>) -> tensor<4xf32>}> ({
  ^bb0(%x: tensor<4xf32>):
    "func.return"(%x) : (tensor<4xf32>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<4xf32>) -> tensor<2x4xf32>}> ({
  ^bb0(%x: tensor<4xf32>):
    %y = "polyreme.dist.all_gather"(%x) {ranks = 2 : i64} : (tensor<4xf32>) -> tensor<2x4xf32>
    "func.return"(%y) : (tensor<2x4xf32>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<4x4xf32>) -> tensor<4x4xf32>}> ({
  ^bb0(%x: tensor<4x4xf32>):
    %total = "polyreme.dist.all_reduce"(%x) {reduce = "mean"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    "func.return"(%total) : (tensor<4x4xf32>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<2x2xf32>) -> tensor<2x2xf32>}> ({
  ^bb0(%x: tensor<2x2xf32>):
    %p = "polyreme.dist.all_reduce_start"(%x) {reduce = "mean", bucket = 0 : i64} : (tensor<2x2xf32>) -> !polyreme.pending<2x2xf32>
    %y = "polyreme.dist.wait"(%p) : (!polyreme.pending<2x2xf32>) -> tensor<2x2xf32>
    "func.return"(%y) : (tensor<2x2xf32>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<2x2xf32>) -> tensor<2x2xf32>}> ({
  ^bb0(%x: tensor<2x2xf32>):
    %y = "polyreme.dist.broadcast"(%x) {root = 0 : i64} : (tensor<2x2xf32>) -> tensor<2x2xf32>
    "func.return"(%y) : (tensor<2x2xf32>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<4x2xf32>) -> tensor<2x2xf32>}> ({
  ^bb0(%x: tensor<4x2xf32>):
    %y = "polyreme.dist.reduce_scatter"(%x) {reduce = "sum", ranks = 2 : i64} : (tensor<4x2xf32>) -> tensor<2x2xf32>
    "func.return"(%y) : (tensor<2x2xf32>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<2x2xf32>) -> tensor<2x2xf32>}> ({
  ^bb0(%x: tensor<2x2xf32>):
    %p = "polyreme.dist.all_reduce_start"(%x) {reduce = "sum"} : (tensor<2x2xf32>) -> !polyreme.pending<2x2xf32>
    %y = "polyreme.dist.wait"(%p) : (!polyreme.pending<2x2xf32>) -> tensor<2x2xf32>
    "func.return"(%y) : (tensor<2x2xf32>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "same", function_type = (tensor<4xf32>) -> tensor<4xf32>}> ({
  ^bb0(%x: tensor<4xf32>):
    "func.return"(%x) : (tensor<4xf32>) -> ()
  }) {arg_names = ["x"]} : () -> ()
  "func.func"() <{sym_name = "main", function_type = (tensor<4xf32>) -> tensor<4xf32>}> ({
  ^bb0(%x: tensor<4xf32>):
    %y = "polyreme.func.call"(%x) {callee = @same} : (tensor<4xf32>) -> tensor<4xf32>
    "func.return"(%y) : (tensor<4xf32>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "twice", function_type = (tensor<4xf32>) -> tensor<4xf32>}> ({
  ^bb0(%x: tensor<4xf32>):
    %y = "polyreme.nn.add"(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    "func.return"(%y) : (tensor<4xf32>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "swap", function_type = (tensor<4xf32>, tensor<2xi64>) -> (tensor<2xi64>, tensor<4xf32>)}> ({
  ^bb0(%x: tensor<4xf32>, %y: tensor<2xi64>):
    "func.return"(%y, %x) : (tensor<2xi64>, tensor<4xf32>) -> ()
  }) {arg_names = ["x", "y"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x3xf32, ["N"]>, tensor<?xf32, ["K"]>) -> tensor<?x3xf32, ["K"]>}> ({
  ^bb0(%x: tensor<?x3xf32, ["N"]>, %sizes: tensor<?xf32, ["K"]>):
    %kept = "polyreme.host.call"(%x) {id = 0 : i64, function = "drop_empty_rows"} : (tensor<?x3xf32, ["N"]>) -> tensor<?x3xf32, ["K"]>
    "func.return"(%kept) : (tensor<?x3xf32, ["K"]>) -> ()
  }) {arg_names = ["x", "sizes"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<313xui64>) -> (tensor<4xi64>, tensor<313xui64>)}> ({
  ^bb0(%s: tensor<313xui64>):
    %v, %next = "polyreme.host.integers"(%s) {shape = [4 : i64], low = 0 : i64, high = 10 : i64, dtype = i64} : (tensor<313xui64>) -> (tensor<4xi64>, tensor<313xui64>)
    "func.return"(%v, %next) : (tensor<4xi64>, tensor<313xui64>) -> ()
  }) {arg_names = ["s"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "main", function_type = (tensor<4x3xi1>) -> tensor<?x2xi64, ["K"]>}> ({
  ^bb0(%x: tensor<4x3xi1>):
    %places = "polyreme.host.nonzero"(%x) {count = #polyreme.size<"K">} : (tensor<4x3xi1>) -> tensor<?x2xi64, ["K"]>
    "func.return"(%places) : (tensor<?x2xi64, ["K"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<313xui64>) -> (tensor<4xf32>, tensor<313xui64>)}> ({
  ^bb0(%s: tensor<313xui64>):
    %v, %next = "polyreme.host.normal"(%s) {shape = [4 : i64], mean = 0.000000e+00 : f64, std = 1.000000e+00 : f64, dtype = f32} : (tensor<313xui64>) -> (tensor<4xf32>, tensor<313xui64>)
    "func.return"(%v, %next) : (tensor<4xf32>, tensor<313xui64>) -> ()
  }) {arg_names = ["s"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<313xui64>) -> (tensor<5xi64>, tensor<313xui64>)}> ({
  ^bb0(%s: tensor<313xui64>):
    %v, %next = "polyreme.host.permutation"(%s) {count = 5 : i64} : (tensor<313xui64>) -> (tensor<5xi64>, tensor<313xui64>)
    "func.return"(%v, %next) : (tensor<5xi64>, tensor<313xui64>) -> ()
  }) {arg_names = ["s"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x3x4xf32, ["N"]>) -> tensor<?x3xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x3x4xf32, ["N"]>):
    %s = "polyreme.host.singular_values"(%x) : (tensor<?x3x4xf32, ["N"]>) -> tensor<?x3xf32, ["N"]>
    "func.return"(%s) : (tensor<?x3xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x3x4xf32, ["N"]>) -> (tensor<?x3x3xf32, ["N"]>, tensor<?x3x4xf32, ["N"]>)}> ({
  ^bb0(%x: tensor<?x3x4xf32, ["N"]>):
    %u, %v = "polyreme.host.singular_vectors"(%x) : (tensor<?x3x4xf32, ["N"]>) -> (tensor<?x3x3xf32, ["N"]>, tensor<?x3x4xf32, ["N"]>)
    "func.return"(%u, %v) : (tensor<?x3x3xf32, ["N"]>, tensor<?x3x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = () -> !polyreme.buffer<8x128xf32>}> ({
    %tmp = "polyreme.kernel.alloc"() {shape = [8 : i64, 128 : i64], dtype = f32, offset = 4096 : i64, space = "arena", of_thread = 0 : i64} : () -> !polyreme.buffer<8x128xf32>
    "func.return"(%tmp) : (!polyreme.buffer<8x128xf32>) -> ()
  }) : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (vector<16xf32>, vector<16xf32>) -> (vector<16xf32>, vector<16xf16>)}> ({
  ^bb0(%a: vector<16xf32>, %b: vector<16xf32>):
    %s = "polyreme.kernel.apply"(%a, %b) {fn = "add"} : (vector<16xf32>, vector<16xf32>) -> vector<16xf32>
    %h = "polyreme.kernel.apply"(%a) {fn = "cast", dtype = f16} : (vector<16xf32>) -> vector<16xf16>
    "func.return"(%s, %h) : (vector<16xf32>, vector<16xf16>) -> ()
  }) {arg_names = ["a", "b"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (f32, !polyreme.buffer<64xf32>, index) -> ()}> ({
  ^bb0(%v: f32, %y: !polyreme.buffer<64xf32>, %i: index):
    "polyreme.kernel.atomic"(%v, %y, %i) {fn = "add", operandSegmentSizes = array<i32: 1, 1, 1, 0>} : (f32, !polyreme.buffer<64xf32>, index) -> ()
    "func.return"() : () -> ()
  }) {arg_names = ["v", "y", "i"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "waiting", function_type = () -> ()}> ({
    "polyreme.kernel.barrier"() : () -> ()
    "func.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = () -> index}> ({
    %n = "polyreme.kernel.block_count"() {axis = 0 : i64} : () -> index
    "func.return"(%n) : (index) -> ()
  }) : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = () -> index}> ({
    %b = "polyreme.kernel.block_id"() {axis = 1 : i64} : () -> index
    "func.return"(%b) : (index) -> ()
  }) : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (f32) -> vector<16xf32>}> ({
  ^bb0(%x: f32):
    %v = "polyreme.kernel.broadcast"(%x) {lanes = 16 : i64} : (f32) -> vector<16xf32>
    "func.return"(%v) : (vector<16xf32>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "nothing", function_type = (!polyreme.buffer<8xf32>, index) -> ()}> ({
  ^bb0(%x: !polyreme.buffer<8xf32>, %n: index):
    "func.return"() : () -> ()
  }) {arg_names = ["x", "n"]} : () -> ()
  "func.func"() <{sym_name = "main", function_type = (!polyreme.buffer<8xf32>) -> ()}> ({
  ^bb0(%x: !polyreme.buffer<8xf32>):
    %n = "polyreme.kernel.size"() {value = 8 : i64} : () -> index
    "polyreme.kernel.call"(%x, %n) {callee = @nothing} : (!polyreme.buffer<8xf32>, index) -> ()
    "func.return"() : () -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "back", function_type = (!polyreme.buffer<1xi1>) -> ()}> ({
  ^bb0(%answer: !polyreme.buffer<1xi1>):
    %first = "polyreme.kernel.clock"() : () -> i64
    %second = "polyreme.kernel.clock"() : () -> i64
    %back = "polyreme.kernel.apply"(%second, %first) {fn = "lt"} : (i64, i64) -> i1
    %zero = "polyreme.kernel.constant"() {value = 0 : i64, dtype = index} : () -> index
    "polyreme.kernel.store"(%back, %answer, %zero) {streaming = false, operandSegmentSizes = array<i32: 1, 1, 1, 0>} : (i1, !polyreme.buffer<1xi1>, index) -> ()
    "func.return"() : () -> ()
  }) {arg_names = ["answer"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = () -> f32}> ({
    %zero = "polyreme.kernel.constant"() {value = 0.000000e+00 : f64, dtype = f32} : () -> f32
    "func.return"(%zero) : (f32) -> ()
  }) : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (!polyreme.buffer<64xf32>, index, !polyreme.buffer<32xf32>, index) -> ()}> ({
  ^bb0(%x: !polyreme.buffer<64xf32>, %i: index, %tile: !polyreme.buffer<32xf32>, %j: index):
    "polyreme.kernel.copy_async"(%x, %i, %tile, %j) {lanes = 4 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0>} : (!polyreme.buffer<64xf32>, index, !polyreme.buffer<32xf32>, index) -> ()
    "func.return"() : () -> ()
  }) {arg_names = ["x", "i", "tile", "j"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "waiting", function_type = () -> ()}> ({
    "polyreme.kernel.copy_commit"() : () -> ()
    "func.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "waiting", function_type = () -> ()}> ({
    "polyreme.kernel.copy_wait"() {pending = 1 : i64} : () -> ()
    "func.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = () -> !polyreme.buffer<2xf32>}> ({
    %w = "polyreme.kernel.data"() {value = dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>} : () -> !polyreme.buffer<2xf32>
    "func.return"(%w) : (!polyreme.buffer<2xf32>) -> ()
  }) : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (vector<16xi32>, vector<16xi32>, vector<16xi32>) -> vector<16xi32>}> ({
  ^bb0(%a: vector<16xi32>, %b: vector<16xi32>, %acc: vector<16xi32>):
    %next = "polyreme.kernel.dot4"(%a, %b, %acc) : (vector<16xi32>, vector<16xi32>, vector<16xi32>) -> vector<16xi32>
    "func.return"(%next) : (vector<16xi32>) -> ()
  }) {arg_names = ["a", "b", "acc"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (!polyreme.buffer<256xi32>, index, !polyreme.buffer<1024xi32>, index, !polyreme.buffer<64xi32>, index) -> ()}> ({
  ^bb0(%a: !polyreme.buffer<256xi32>, %i: index, %b: !polyreme.buffer<1024xi32>, %j: index, %sums: !polyreme.buffer<64xi32>, %next: index):
    "polyreme.kernel.dot_block"(%a, %i, %b, %j, %sums, %next) {rows = 4 : i64, row = 48 : i64, starts = [0 : i64], places = [0 : i64], columns = 16 : i64, width = 16 : i64, counts = [3 : i64], moves_a = [16 : i64], moves_b = [256 : i64], lines = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1>} : (!polyreme.buffer<256xi32>, index, !polyreme.buffer<1024xi32>, index, !polyreme.buffer<64xi32>, index) -> ()
    "func.return"() : () -> ()
  }) {arg_names = ["a", "i", "b", "j", "sums", "next"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (vector<16xf32>) -> f32}> ({
  ^bb0(%v: vector<16xf32>):
    %s = "polyreme.kernel.extract"(%v) {lane = 3 : i64} : (vector<16xf32>) -> f32
    "func.return"(%s) : (f32) -> ()
  }) {arg_names = ["v"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (i64, !polyreme.buffer<64xi64>, index) -> i64}> ({
  ^bb0(%value: i64, %taken: !polyreme.buffer<64xi64>, %i: index):
    %number = "polyreme.kernel.fetch_add"(%value, %taken, %i) : (i64, !polyreme.buffer<64xi64>, index) -> i64
    "func.return"(%number) : (i64) -> ()
  }) {arg_names = ["value", "taken", "i"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (vector<16xf32>, vector<16xf32>, vector<16xf32>) -> vector<16xf32>}> ({
  ^bb0(%a: vector<16xf32>, %b: vector<16xf32>, %acc: vector<16xf32>):
    %next = "polyreme.kernel.fma"(%a, %b, %acc) : (vector<16xf32>, vector<16xf32>, vector<16xf32>) -> vector<16xf32>
    "func.return"(%next) : (vector<16xf32>) -> ()
  }) {arg_names = ["a", "b", "acc"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (index, index, !polyreme.buffer<64xf32>, vector<16xf32>) -> vector<16xf32>}> ({
  ^bb0(%lo: index, %hi: index, %buffer: !polyreme.buffer<64xf32>, %zero: vector<16xf32>):
    %sum = "polyreme.kernel.for"(%lo, %hi, %zero) ({
    ^bb0(%i: index, %acc: vector<16xf32>):
      %x = "polyreme.kernel.load"(%buffer, %i) {lanes = 16 : i64, operandSegmentSizes = array<i32: 1, 1, 0>} : (!polyreme.buffer<64xf32>, index) -> vector<16xf32>
      %next = "polyreme.kernel.apply"(%acc, %x) {fn = "add"} : (vector<16xf32>, vector<16xf32>) -> vector<16xf32>
      "polyreme.kernel.yield"(%next) : (vector<16xf32>) -> ()
    }) {step = 16 : i64, operandSegmentSizes = array<i32: 1, 1, 1>} : (index, index, vector<16xf32>) -> vector<16xf32>
    "func.return"(%sum) : (vector<16xf32>) -> ()
  }) {arg_names = ["lo", "hi", "buffer", "zero"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (!polyreme.buffer<64xf32>, vector<16xindex>) -> vector<16xf32>}> ({
  ^bb0(%x: !polyreme.buffer<64xf32>, %positions: vector<16xindex>):
    %v = "polyreme.kernel.gather"(%x, %positions) {operandSegmentSizes = array<i32: 1, 1, 0>} : (!polyreme.buffer<64xf32>, vector<16xindex>) -> vector<16xf32>
    "func.return"(%v) : (vector<16xf32>) -> ()
  }) {arg_names = ["x", "positions"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (i1, f32, f32) -> f32}> ({
  ^bb0(%condition: i1, %a: f32, %b: f32):
    %r = "polyreme.kernel.if"(%condition) ({
      "polyreme.kernel.yield"(%a) : (f32) -> ()
    }, {
      "polyreme.kernel.yield"(%b) : (f32) -> ()
    }) : (i1) -> f32
    "func.return"(%r) : (f32) -> ()
  }) {arg_names = ["condition", "a", "b"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (f32, vector<16xf32>) -> vector<16xf32>}> ({
  ^bb0(%s: f32, %v: vector<16xf32>):
    %w = "polyreme.kernel.insert"(%v, %s) {lane = 3 : i64} : (vector<16xf32>, f32) -> vector<16xf32>
    "func.return"(%w) : (vector<16xf32>) -> ()
  }) {arg_names = ["s", "v"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = () -> vector<16xindex>}> ({
    %lane = "polyreme.kernel.iota"() {lanes = 16 : i64} : () -> vector<16xindex>
    "func.return"(%lane) : (vector<16xindex>) -> ()
  }) : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (index) -> vector<16xi1>}> ({
  ^bb0(%left: index):
    %mask = "polyreme.kernel.lane_mask"(%left) {lanes = 16 : i64} : (index) -> vector<16xi1>
    "func.return"(%mask) : (vector<16xi1>) -> ()
  }) {arg_names = ["left"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "fill", function_type = (!polyreme.buffer<?xf32, ["N"]>, index) -> ()}> ({
  ^bb0(%x: !polyreme.buffer<?xf32, ["N"]>, %n: index):
    "func.return"() : () -> ()
  }) {arg_names = ["x", "n"]} : () -> ()
  "func.func"() <{sym_name = "main", function_type = (!polyreme.buffer<?xf32, ["N"]>) -> ()}> ({
  ^bb0(%x: !polyreme.buffer<?xf32, ["N"]>):
    %n = "polyreme.kernel.size"() {value = #polyreme.size<"N">} : () -> index
    "polyreme.kernel.launch"(%x, %n) {callee = @fill, grid = [#polyreme.size<"floordiv(N+127, 128)">], block = [128 : i64]} : (!polyreme.buffer<?xf32, ["N"]>, index) -> ()
    "func.return"() : () -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (!polyreme.buffer<64xf32>, index, vector<16xi1>) -> (vector<16xf32>, vector<16xf32>)}> ({
  ^bb0(%x: !polyreme.buffer<64xf32>, %i: index, %mask: vector<16xi1>):
    %v = "polyreme.kernel.load"(%x, %i) {lanes = 16 : i64, operandSegmentSizes = array<i32: 1, 1, 0>} : (!polyreme.buffer<64xf32>, index) -> vector<16xf32>
    %w = "polyreme.kernel.load"(%x, %i, %mask) {lanes = 16 : i64, operandSegmentSizes = array<i32: 1, 1, 1>} : (!polyreme.buffer<64xf32>, index, vector<16xi1>) -> vector<16xf32>
    "func.return"(%v, %w) : (vector<16xf32>, vector<16xf32>) -> ()
  }) {arg_names = ["x", "i", "mask"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (!polyreme.buffer<16x16xbf16>, index) -> vector<8xbf16>}> ({
  ^bb0(%tile: !polyreme.buffer<16x16xbf16>, %i: index):
    %a = "polyreme.kernel.load_matrix"(%tile, %i) {count = 4 : i64, transpose = false} : (!polyreme.buffer<16x16xbf16>, index) -> vector<8xbf16>
    "func.return"(%a) : (vector<8xbf16>) -> ()
  }) {arg_names = ["tile", "i"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (vector<8xbf16>, vector<4xbf16>, vector<4xf32>) -> vector<4xf32>}> ({
  ^bb0(%a: vector<8xbf16>, %b: vector<4xbf16>, %c: vector<4xf32>):
    %d = "polyreme.kernel.mma"(%a, %b, %c) : (vector<8xbf16>, vector<4xbf16>, vector<4xf32>) -> vector<4xf32>
    "func.return"(%d) : (vector<4xf32>) -> ()
  }) {arg_names = ["a", "b", "c"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (index) -> ()}> ({
  ^bb0(%rows: index):
    "polyreme.kernel.parallel"(%rows) ({
    ^bb0(%i: index):
      "polyreme.kernel.yield"() : () -> ()
    }) {grain = 4 : i64} : (index) -> ()
    "func.return"() : () -> ()
  }) {arg_names = ["rows"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (!polyreme.buffer<64xf32>, index) -> ()}> ({
  ^bb0(%x: !polyreme.buffer<64xf32>, %i: index):
    "polyreme.kernel.prefetch"(%x, %i) {write = false, locality = 2 : i64} : (!polyreme.buffer<64xf32>, index) -> ()
    "func.return"() : () -> ()
  }) {arg_names = ["x", "i"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (vector<16xf32>) -> f32}> ({
  ^bb0(%v: vector<16xf32>):
    %s = "polyreme.kernel.reduce"(%v) {fn = "add"} : (vector<16xf32>) -> f32
    "func.return"(%s) : (f32) -> ()
  }) {arg_names = ["v"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (vector<16xf32>) -> vector<64xui8>}> ({
  ^bb0(%x: vector<16xf32>):
    %b = "polyreme.kernel.reinterpret"(%x) {dtype = ui8} : (vector<16xf32>) -> vector<64xui8>
    "func.return"(%b) : (vector<64xui8>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (f32) -> f32}> ({
  ^bb0(%x: f32):
    %big = "polyreme.kernel.round_tf32"(%x) : (f32) -> f32
    "func.return"(%big) : (f32) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (vector<16xf32>, !polyreme.buffer<64xf32>, vector<16xindex>, vector<16xi1>) -> ()}> ({
  ^bb0(%v: vector<16xf32>, %y: !polyreme.buffer<64xf32>, %positions: vector<16xindex>, %mask: vector<16xi1>):
    "polyreme.kernel.scatter"(%v, %y, %positions, %mask) {operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (vector<16xf32>, !polyreme.buffer<64xf32>, vector<16xindex>, vector<16xi1>) -> ()
    "func.return"() : () -> ()
  }) {arg_names = ["v", "y", "positions", "mask"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (vector<4xf32>, vector<4xf32>) -> vector<4xf32>}> ({
  ^bb0(%a: vector<4xf32>, %b: vector<4xf32>):
    %even = "polyreme.kernel.shuffle"(%a, %b) {lanes = [0 : i64, 2 : i64, 4 : i64, 6 : i64]} : (vector<4xf32>, vector<4xf32>) -> vector<4xf32>
    "func.return"(%even) : (vector<4xf32>) -> ()
  }) {arg_names = ["a", "b"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?xf32, ["N"]>) -> index}> ({
  ^bb0(%sizes: tensor<?xf32, ["N"]>):
    %n = "polyreme.kernel.size"() {value = #polyreme.size<"4*N+1">} : () -> index
    "func.return"(%n) : (index) -> ()
  }) {arg_names = ["sizes"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (vector<16xf32>, !polyreme.buffer<64xf32>, index, vector<16xi1>) -> ()}> ({
  ^bb0(%v: vector<16xf32>, %y: !polyreme.buffer<64xf32>, %i: index, %mask: vector<16xi1>):
    "polyreme.kernel.store"(%v, %y, %i) {streaming = false, operandSegmentSizes = array<i32: 1, 1, 1, 0>} : (vector<16xf32>, !polyreme.buffer<64xf32>, index) -> ()
    "polyreme.kernel.store"(%v, %y, %i, %mask) {streaming = false, operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (vector<16xf32>, !polyreme.buffer<64xf32>, index, vector<16xi1>) -> ()
    "func.return"() : () -> ()
  }) {arg_names = ["v", "y", "i", "mask"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = () -> index}> ({
    %n = "polyreme.kernel.thread_count"() {axis = 0 : i64} : () -> index
    "func.return"(%n) : (index) -> ()
  }) : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = () -> index}> ({
    %t = "polyreme.kernel.thread_id"() {axis = 0 : i64} : () -> index
    "func.return"(%t) : (index) -> ()
  }) : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = () -> index}> ({
    %n = "polyreme.kernel.threads"() : () -> index
    "func.return"(%n) : (index) -> ()
  }) : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (!polyreme.buffer<64xf32>, index) -> index}> ({
  ^bb0(%y: !polyreme.buffer<64xf32>, %i: index):
    %n = "polyreme.kernel.until_aligned"(%y, %i) {bytes = 64 : i64} : (!polyreme.buffer<64xf32>, index) -> index
    "func.return"(%n) : (index) -> ()
  }) {arg_names = ["y", "i"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (!polyreme.buffer<8x16xf32>, index) -> !polyreme.buffer<16xf32>}> ({
  ^bb0(%x: !polyreme.buffer<8x16xf32>, %start: index):
    %v = "polyreme.kernel.view"(%x, %start) {shape = [16 : i64], operandSegmentSizes = array<i32: 1, 1>} : (!polyreme.buffer<8x16xf32>, index) -> !polyreme.buffer<16xf32>
    "func.return"(%v) : (!polyreme.buffer<16xf32>) -> ()
  }) {arg_names = ["x", "start"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (f32) -> f32}> ({
  ^bb0(%x: f32):
    %other = "polyreme.kernel.warp_shuffle"(%x) {mode = "xor", by = 16 : i64} : (f32) -> f32
    "func.return"(%other) : (f32) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (i1, f32, f32) -> f32}> ({
  ^bb0(%condition: i1, %a: f32, %b: f32):
    %larger = "polyreme.kernel.if"(%condition) ({
      "polyreme.kernel.yield"(%a) : (f32) -> ()
    }, {
      "polyreme.kernel.yield"(%b) : (f32) -> ()
    }) : (i1) -> f32
    "func.return"(%larger) : (f32) -> ()
  }) {arg_names = ["condition", "a", "b"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>):
    %y = "polyreme.nn.abs"(%x) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%y) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>):
    %y = "polyreme.nn.acos"(%x) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%y) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>, tensor<4xf32>) -> tensor<?x4xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>, %y: tensor<4xf32>):
    %z = "polyreme.nn.add"(%x, %y) : (tensor<?x4xf32, ["N"]>, tensor<4xf32>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%z) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x", "y"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xi1, ["N"]>) -> tensor<?xi1, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xi1, ["N"]>):
    %y = "polyreme.nn.all"(%x) {axis = [1 : i64], keepdims = false} : (tensor<?x4xi1, ["N"]>) -> tensor<?xi1, ["N"]>
    "func.return"(%y) : (tensor<?xi1, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xi1, ["N"]>) -> tensor<?xi1, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xi1, ["N"]>):
    %y = "polyreme.nn.any"(%x) {axis = [1 : i64], keepdims = false} : (tensor<?x4xi1, ["N"]>) -> tensor<?xi1, ["N"]>
    "func.return"(%y) : (tensor<?xi1, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?xi64, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>):
    %i = "polyreme.nn.arg_max"(%x) {axis = -1 : i64, keepdims = false, dtype = i64} : (tensor<?x4xf32, ["N"]>) -> tensor<?xi64, ["N"]>
    "func.return"(%i) : (tensor<?xi64, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?xi64, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>):
    %i = "polyreme.nn.arg_min"(%x) {axis = -1 : i64, keepdims = false, dtype = i64} : (tensor<?x4xf32, ["N"]>) -> tensor<?xi64, ["N"]>
    "func.return"(%i) : (tensor<?xi64, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x2xi64, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>):
    %i = "polyreme.nn.argsort"(%x) {axis = -1 : i64, descending = true, count = 2 : i64} : (tensor<?x4xf32, ["N"]>) -> tensor<?x2xi64, ["N"]>
    "func.return"(%i) : (tensor<?x2xi64, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>):
    %y = "polyreme.nn.asin"(%x) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%y) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>):
    %y = "polyreme.nn.atan"(%x) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%y) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>, tensor<4xf32>) -> tensor<?x4xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>, %y: tensor<4xf32>):
    %z = "polyreme.nn.atan2"(%x, %y) : (tensor<?x4xf32, ["N"]>, tensor<4xf32>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%z) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x", "y"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x1x4x4xf32, ["N"]>) -> tensor<?x1x2x2xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x1x4x4xf32, ["N"]>):
    %y = "polyreme.nn.avg_pool"(%x) {kernel = [3 : i64, 3 : i64], strides = [2 : i64, 2 : i64], padding = [1 : i64, 1 : i64, 1 : i64, 1 : i64], exclusive = true, ceil_mode = false} : (tensor<?x1x4x4xf32, ["N"]>) -> tensor<?x1x2x2xf32, ["N"]>
    "func.return"(%y) : (tensor<?x1x2x2xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x2x3xf32, ["N"]>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<?x2x3xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x2x3xf32, ["N"]>, %m: tensor<2xf32>, %v: tensor<2xf32>, %w: tensor<2xf32>, %b: tensor<2xf32>):
    %y = "polyreme.nn.batch_norm"(%x, %m, %v, %w, %b) {axis = 1 : i64, epsilon = 1.000000e-05 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1>} : (tensor<?x2x3xf32, ["N"]>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<?x2x3xf32, ["N"]>
    "func.return"(%y) : (tensor<?x2x3xf32, ["N"]>) -> ()
  }) {arg_names = ["x", "m", "v", "w", "b"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xi32, ["N"]>, tensor<4xi32>) -> tensor<?x4xi32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xi32, ["N"]>, %y: tensor<4xi32>):
    %z = "polyreme.nn.bitwise_and"(%x, %y) : (tensor<?x4xi32, ["N"]>, tensor<4xi32>) -> tensor<?x4xi32, ["N"]>
    "func.return"(%z) : (tensor<?x4xi32, ["N"]>) -> ()
  }) {arg_names = ["x", "y"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xi32, ["N"]>) -> tensor<?x4xi32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xi32, ["N"]>):
    %y = "polyreme.nn.bitwise_not"(%x) : (tensor<?x4xi32, ["N"]>) -> tensor<?x4xi32, ["N"]>
    "func.return"(%y) : (tensor<?x4xi32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xi32, ["N"]>, tensor<4xi32>) -> tensor<?x4xi32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xi32, ["N"]>, %y: tensor<4xi32>):
    %z = "polyreme.nn.bitwise_or"(%x, %y) : (tensor<?x4xi32, ["N"]>, tensor<4xi32>) -> tensor<?x4xi32, ["N"]>
    "func.return"(%z) : (tensor<?x4xi32, ["N"]>) -> ()
  }) {arg_names = ["x", "y"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xi32, ["N"]>, tensor<4xi32>) -> tensor<?x4xi32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xi32, ["N"]>, %y: tensor<4xi32>):
    %z = "polyreme.nn.bitwise_xor"(%x, %y) : (tensor<?x4xi32, ["N"]>, tensor<4xi32>) -> tensor<?x4xi32, ["N"]>
    "func.return"(%z) : (tensor<?x4xi32, ["N"]>) -> ()
  }) {arg_names = ["x", "y"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<4xf32>, tensor<?xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>}> ({
  ^bb0(%x: tensor<4xf32>, %z: tensor<?xf32, ["N"]>):
    %y = "polyreme.nn.broadcast_to"(%x) {shape = [#polyreme.size<"N">, 4 : i64]} : (tensor<4xf32>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%y) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x", "z"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xi64, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>):
    %y = "polyreme.nn.cast"(%x) {dtype = i64} : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xi64, ["N"]>
    "func.return"(%y) : (tensor<?x4xi64, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>):
    %y = "polyreme.nn.ceil"(%x) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%y) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x3x3xf32, ["N"]>) -> tensor<?x3x3xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x3x3xf32, ["N"]>):
    %y = "polyreme.nn.cholesky"(%x) {upper = false} : (tensor<?x3x3xf32, ["N"]>) -> tensor<?x3x3xf32, ["N"]>
    "func.return"(%y) : (tensor<?x3x3xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?xf32, ["N"]>, tensor<?xf32, ["N"]>) -> tensor<?xcomplex<f32>, ["N"]>}> ({
  ^bb0(%x: tensor<?xf32, ["N"]>, %y: tensor<?xf32, ["N"]>):
    %z = "polyreme.nn.complex"(%x, %y) : (tensor<?xf32, ["N"]>, tensor<?xf32, ["N"]>) -> tensor<?xcomplex<f32>, ["N"]>
    "func.return"(%z) : (tensor<?xcomplex<f32>, ["N"]>) -> ()
  }) {arg_names = ["x", "y"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>, tensor<?x3xf32, ["N"]>) -> tensor<?x7xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>, %y: tensor<?x3xf32, ["N"]>):
    %z = "polyreme.nn.concat"(%x, %y) {axis = 1 : i64} : (tensor<?x4xf32, ["N"]>, tensor<?x3xf32, ["N"]>) -> tensor<?x7xf32, ["N"]>
    "func.return"(%z) : (tensor<?x7xf32, ["N"]>) -> ()
  }) {arg_names = ["x", "y"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?xcomplex<f32>, ["N"]>) -> tensor<?xcomplex<f32>, ["N"]>}> ({
  ^bb0(%x: tensor<?xcomplex<f32>, ["N"]>):
    %y = "polyreme.nn.conj"(%x) : (tensor<?xcomplex<f32>, ["N"]>) -> tensor<?xcomplex<f32>, ["N"]>
    "func.return"(%y) : (tensor<?xcomplex<f32>, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = () -> tensor<2xf32>}> ({
    %c = "polyreme.nn.constant"() {value = dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>} : () -> tensor<2xf32>
    "func.return"(%c) : (tensor<2xf32>) -> ()
  }) : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x1x4x4xf32, ["N"]>, tensor<2x1x3x3xf32>, tensor<2xf32>) -> tensor<?x2x2x2xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x1x4x4xf32, ["N"]>, %w: tensor<2x1x3x3xf32>, %b: tensor<2xf32>):
    %y = "polyreme.nn.conv"(%x, %w, %b) {strides = [2 : i64, 2 : i64], padding = [1 : i64, 1 : i64, 1 : i64, 1 : i64], groups = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1>} : (tensor<?x1x4x4xf32, ["N"]>, tensor<2x1x3x3xf32>, tensor<2xf32>) -> tensor<?x2x2x2xf32, ["N"]>
    "func.return"(%y) : (tensor<?x2x2x2xf32, ["N"]>) -> ()
  }) {arg_names = ["x", "w", "b"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x1x9xf32, ["N"]>, tensor<?x2x4xf32, ["N"]>) -> tensor<2x1x3xf32>}> ({
  ^bb0(%x: tensor<?x1x9xf32, ["N"]>, %dy: tensor<?x2x4xf32, ["N"]>):
    %w = "polyreme.nn.conv_filter"(%x, %dy) {kernel = [3 : i64], strides = [2 : i64], groups = 1 : i64} : (tensor<?x1x9xf32, ["N"]>, tensor<?x2x4xf32, ["N"]>) -> tensor<2x1x3xf32>
    "func.return"(%w) : (tensor<2x1x3xf32>) -> ()
  }) {arg_names = ["x", "dy"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x1x4xf32, ["N"]>, tensor<1x2x3xf32>) -> tensor<?x2x9xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x1x4xf32, ["N"]>, %w: tensor<1x2x3xf32>):
    %y = "polyreme.nn.conv_transpose"(%x, %w) {strides = [2 : i64], groups = 1 : i64, sizes = [9 : i64]} : (tensor<?x1x4xf32, ["N"]>, tensor<1x2x3xf32>) -> tensor<?x2x9xf32, ["N"]>
    "func.return"(%y) : (tensor<?x2x9xf32, ["N"]>) -> ()
  }) {arg_names = ["x", "w"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>):
    %y = "polyreme.nn.cos"(%x) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%y) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>):
    %y = "polyreme.nn.cosh"(%x) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%y) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>, tensor<?x1xi64, ["N"]>) -> tensor<?x1xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>, %t: tensor<?x1xi64, ["N"]>):
    %l = "polyreme.nn.cross_entropy"(%x, %t) {axis = -1 : i64, soft_label = false, ignore_index = -100 : i64} : (tensor<?x4xf32, ["N"]>, tensor<?x1xi64, ["N"]>) -> tensor<?x1xf32, ["N"]>
    "func.return"(%l) : (tensor<?x1xf32, ["N"]>) -> ()
  }) {arg_names = ["x", "t"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>):
    %y = "polyreme.nn.cumsum"(%x) {axis = 1 : i64} : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%y) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xi8, ["N"]>, tensor<f32>) -> tensor<?x4xf32, ["N"]>}> ({
  ^bb0(%q: tensor<?x4xi8, ["N"]>, %s: tensor<f32>):
    %y = "polyreme.nn.dequantize_linear"(%q, %s) {axis = 0 : i64, operandSegmentSizes = array<i32: 1, 1, 0>} : (tensor<?x4xi8, ["N"]>, tensor<f32>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%y) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["q", "s"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?xf32, ["N"]>) -> tensor<i64>}> ({
  ^bb0(%x: tensor<?xf32, ["N"]>):
    %n = "polyreme.nn.dim_value"() {size = #polyreme.size<"3*N">, dtype = i64} : () -> tensor<i64>
    "func.return"(%n) : (tensor<i64>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>, tensor<4xf32>) -> tensor<?x4xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>, %y: tensor<4xf32>):
    %z = "polyreme.nn.div"(%x, %y) : (tensor<?x4xf32, ["N"]>, tensor<4xf32>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%z) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x", "y"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>, tensor<?x1xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>, %d: tensor<?x1xf32, ["N"]>):
    %y = "polyreme.nn.dropout"(%x, %d) {p = 3.000000e-01 : f64, mode = "upscale_in_train"} : (tensor<?x4xf32, ["N"]>, tensor<?x1xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%y) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x", "d"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>, tensor<4xf32>) -> tensor<?x4xi1, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>, %y: tensor<4xf32>):
    %z = "polyreme.nn.equal"(%x, %y) : (tensor<?x4xf32, ["N"]>, tensor<4xf32>) -> tensor<?x4xi1, ["N"]>
    "func.return"(%z) : (tensor<?x4xi1, ["N"]>) -> ()
  }) {arg_names = ["x", "y"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>):
    %y = "polyreme.nn.erf"(%x) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%y) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>):
    %y = "polyreme.nn.exp"(%x) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%y) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>):
    %y = "polyreme.nn.expm1"(%x) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%y) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>, tensor<f32>) -> tensor<?x4xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>, %s: tensor<f32>):
    %y = "polyreme.nn.fake_quantize"(%x, %s) {axis = 0 : i64, bit_length = 8 : i64, ties = "even"} : (tensor<?x4xf32, ["N"]>, tensor<f32>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%y) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x", "s"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>):
    %y = "polyreme.nn.flip"(%x) {axes = [-1 : i64]} : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%y) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>):
    %y = "polyreme.nn.floor"(%x) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%y) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>, tensor<4xf32>) -> tensor<?x4xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>, %y: tensor<4xf32>):
    %z = "polyreme.nn.floor_divide"(%x, %y) : (tensor<?x4xf32, ["N"]>, tensor<4xf32>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%z) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x", "y"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4x3xf32, ["N"]>) -> tensor<?x9xf32, ["N"]>}> ({
  ^bb0(%w: tensor<?x4x3xf32, ["N"]>):
    %x = "polyreme.nn.fold"(%w) {axes = [1 : i64], sizes = [9 : i64], strides = [2 : i64], dilations = [1 : i64]} : (tensor<?x4x3xf32, ["N"]>) -> tensor<?x9xf32, ["N"]>
    "func.return"(%x) : (tensor<?x9xf32, ["N"]>) -> ()
  }) {arg_names = ["w"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?xf32, ["N"]>):
    %c = "polyreme.nn.full"() {value = 5.000000e-01 : f64, shape = [#polyreme.size<"N">, 4 : i64], dtype = f32} : () -> tensor<?x4xf32, ["N"]>
    "func.return"(%c) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<4x2xf32>, tensor<2x3xi64>) -> tensor<2x3x2xf32>}> ({
  ^bb0(%x: tensor<4x2xf32>, %i: tensor<2x3xi64>):
    %y = "polyreme.nn.gather"(%x, %i) {axis = 0 : i64} : (tensor<4x2xf32>, tensor<2x3xi64>) -> tensor<2x3x2xf32>
    "func.return"(%y) : (tensor<2x3x2xf32>) -> ()
  }) {arg_names = ["x", "i"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>):
    %y = "polyreme.nn.gelu"(%x) {approximate = true} : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%y) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>, tensor<4xf32>) -> tensor<?x4xi1, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>, %y: tensor<4xf32>):
    %z = "polyreme.nn.greater"(%x, %y) : (tensor<?x4xf32, ["N"]>, tensor<4xf32>) -> tensor<?x4xi1, ["N"]>
    "func.return"(%z) : (tensor<?x4xi1, ["N"]>) -> ()
  }) {arg_names = ["x", "y"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>, tensor<4xf32>) -> tensor<?x4xi1, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>, %y: tensor<4xf32>):
    %z = "polyreme.nn.greater_equal"(%x, %y) : (tensor<?x4xf32, ["N"]>, tensor<4xf32>) -> tensor<?x4xi1, ["N"]>
    "func.return"(%z) : (tensor<?x4xi1, ["N"]>) -> ()
  }) {arg_names = ["x", "y"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<3x2x12xf32>, tensor<12x4xf32>, tensor<2x4xf32>, tensor<12xf32>) -> tensor<3x2x4xf32>}> ({
  ^bb0(%x: tensor<3x2x12xf32>, %w: tensor<12x4xf32>, %s: tensor<2x4xf32>, %b: tensor<12xf32>):
    %h = "polyreme.nn.gru"(%x, %w, %s, %b) {reverse = false, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0>} : (tensor<3x2x12xf32>, tensor<12x4xf32>, tensor<2x4xf32>, tensor<12xf32>) -> tensor<3x2x4xf32>
    "func.return"(%h) : (tensor<3x2x4xf32>) -> ()
  }) {arg_names = ["x", "w", "s", "b"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<3x2x12xf32>, tensor<12x4xf32>, tensor<2x4xf32>, tensor<3x2x4xf32>, tensor<3x2x4xf32>, tensor<12xf32>) -> (tensor<3x2x12xf32>, tensor<3x2x12xf32>, tensor<2x4xf32>)}> ({
  ^bb0(%x: tensor<3x2x12xf32>, %w: tensor<12x4xf32>, %s: tensor<2x4xf32>, %h: tensor<3x2x4xf32>, %d: tensor<3x2x4xf32>, %b: tensor<12xf32>):
    %dx, %du, %ds = "polyreme.nn.gru_gradient"(%x, %w, %s, %h, %d, %b) {reverse = false, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0>} : (tensor<3x2x12xf32>, tensor<12x4xf32>, tensor<2x4xf32>, tensor<3x2x4xf32>, tensor<3x2x4xf32>, tensor<12xf32>) -> (tensor<3x2x12xf32>, tensor<3x2x12xf32>, tensor<2x4xf32>)
    "func.return"(%dx, %du, %ds) : (tensor<3x2x12xf32>, tensor<3x2x12xf32>, tensor<2x4xf32>) -> ()
  }) {arg_names = ["x", "w", "s", "h", "d", "b"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?xcomplex<f32>, ["N"]>) -> tensor<?xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?xcomplex<f32>, ["N"]>):
    %y = "polyreme.nn.imag"(%x) : (tensor<?xcomplex<f32>, ["N"]>) -> tensor<?xf32, ["N"]>
    "func.return"(%y) : (tensor<?xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x3x3xf32, ["N"]>) -> tensor<?x3x3xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x3x3xf32, ["N"]>):
    %y = "polyreme.nn.inverse"(%x) : (tensor<?x3x3xf32, ["N"]>) -> tensor<?x3x3xf32, ["N"]>
    "func.return"(%y) : (tensor<?x3x3xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = () -> tensor<2x5xi64>}> ({
    %i = "polyreme.nn.iota"() {shape = [2 : i64, 5 : i64], axis = -1 : i64, dtype = i64} : () -> tensor<2x5xi64>
    "func.return"(%i) : (tensor<2x5xi64>) -> ()
  }) : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xi1, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>):
    %y = "polyreme.nn.is_finite"(%x) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xi1, ["N"]>
    "func.return"(%y) : (tensor<?x4xi1, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xi1, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>):
    %y = "polyreme.nn.is_inf"(%x) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xi1, ["N"]>
    "func.return"(%y) : (tensor<?x4xi1, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xi1, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>):
    %y = "polyreme.nn.is_nan"(%x) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xi1, ["N"]>
    "func.return"(%y) : (tensor<?x4xi1, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>):
    %y = "polyreme.nn.leaky_relu"(%x) {alpha = 1.000000e-01 : f64} : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%y) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>, tensor<4xf32>) -> tensor<?x4xi1, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>, %y: tensor<4xf32>):
    %z = "polyreme.nn.less"(%x, %y) : (tensor<?x4xf32, ["N"]>, tensor<4xf32>) -> tensor<?x4xi1, ["N"]>
    "func.return"(%z) : (tensor<?x4xi1, ["N"]>) -> ()
  }) {arg_names = ["x", "y"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>, tensor<4xf32>) -> tensor<?x4xi1, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>, %y: tensor<4xf32>):
    %z = "polyreme.nn.less_equal"(%x, %y) : (tensor<?x4xf32, ["N"]>, tensor<4xf32>) -> tensor<?x4xi1, ["N"]>
    "func.return"(%z) : (tensor<?x4xi1, ["N"]>) -> ()
  }) {arg_names = ["x", "y"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>, tensor<4x3xf32>, tensor<3xf32>) -> tensor<?x3xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>, %w: tensor<4x3xf32>, %b: tensor<3xf32>):
    %y = "polyreme.nn.linear"(%x, %w, %b) {operandSegmentSizes = array<i32: 1, 1, 1>} : (tensor<?x4xf32, ["N"]>, tensor<4x3xf32>, tensor<3xf32>) -> tensor<?x3xf32, ["N"]>
    "func.return"(%y) : (tensor<?x3xf32, ["N"]>) -> ()
  }) {arg_names = ["x", "w", "b"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>):
    %y = "polyreme.nn.log"(%x) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%y) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>):
    %y = "polyreme.nn.log10"(%x) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%y) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>):
    %y = "polyreme.nn.log1p"(%x) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%y) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>):
    %y = "polyreme.nn.log2"(%x) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%y) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>):
    %y = "polyreme.nn.log_softmax"(%x) {axis = -1 : i64} : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%y) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xi1, ["N"]>, tensor<4xi1>) -> tensor<?x4xi1, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xi1, ["N"]>, %y: tensor<4xi1>):
    %z = "polyreme.nn.logical_and"(%x, %y) : (tensor<?x4xi1, ["N"]>, tensor<4xi1>) -> tensor<?x4xi1, ["N"]>
    "func.return"(%z) : (tensor<?x4xi1, ["N"]>) -> ()
  }) {arg_names = ["x", "y"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<4xi1>) -> tensor<4xi1>}> ({
  ^bb0(%x: tensor<4xi1>):
    %y = "polyreme.nn.logical_not"(%x) : (tensor<4xi1>) -> tensor<4xi1>
    "func.return"(%y) : (tensor<4xi1>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xi1, ["N"]>, tensor<4xi1>) -> tensor<?x4xi1, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xi1, ["N"]>, %y: tensor<4xi1>):
    %z = "polyreme.nn.logical_or"(%x, %y) : (tensor<?x4xi1, ["N"]>, tensor<4xi1>) -> tensor<?x4xi1, ["N"]>
    "func.return"(%z) : (tensor<?x4xi1, ["N"]>) -> ()
  }) {arg_names = ["x", "y"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xi1, ["N"]>, tensor<4xi1>) -> tensor<?x4xi1, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xi1, ["N"]>, %y: tensor<4xi1>):
    %z = "polyreme.nn.logical_xor"(%x, %y) : (tensor<?x4xi1, ["N"]>, tensor<4xi1>) -> tensor<?x4xi1, ["N"]>
    "func.return"(%z) : (tensor<?x4xi1, ["N"]>) -> ()
  }) {arg_names = ["x", "y"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<3x2x16xf32>, tensor<16x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>) -> (tensor<3x2x4xf32>, tensor<3x2x4xf32>)}> ({
  ^bb0(%x: tensor<3x2x16xf32>, %w: tensor<16x4xf32>, %s: tensor<2x4xf32>, %k: tensor<2x4xf32>):
    %h, %c = "polyreme.nn.lstm"(%x, %w, %s, %k) {reverse = false, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0>} : (tensor<3x2x16xf32>, tensor<16x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>) -> (tensor<3x2x4xf32>, tensor<3x2x4xf32>)
    "func.return"(%h, %c) : (tensor<3x2x4xf32>, tensor<3x2x4xf32>) -> ()
  }) {arg_names = ["x", "w", "s", "k"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<3x2x16xf32>, tensor<16x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<3x2x4xf32>, tensor<3x2x4xf32>, tensor<3x2x4xf32>) -> (tensor<3x2x16xf32>, tensor<2x4xf32>, tensor<2x4xf32>)}> ({
  ^bb0(%x: tensor<3x2x16xf32>, %w: tensor<16x4xf32>, %s: tensor<2x4xf32>, %k: tensor<2x4xf32>, %h: tensor<3x2x4xf32>, %c: tensor<3x2x4xf32>, %d: tensor<3x2x4xf32>):
    %dx, %ds, %dk = "polyreme.nn.lstm_gradient"(%x, %w, %s, %k, %h, %c, %d) {reverse = false, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 0, 0>} : (tensor<3x2x16xf32>, tensor<16x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<3x2x4xf32>, tensor<3x2x4xf32>, tensor<3x2x4xf32>) -> (tensor<3x2x16xf32>, tensor<2x4xf32>, tensor<2x4xf32>)
    "func.return"(%dx, %ds, %dk) : (tensor<3x2x16xf32>, tensor<2x4xf32>, tensor<2x4xf32>) -> ()
  }) {arg_names = ["x", "w", "s", "k", "h", "c", "d"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x2x3xf32, ["N"]>, tensor<4x3xf32>) -> tensor<?x2x4xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x2x3xf32, ["N"]>, %y: tensor<4x3xf32>):
    %z = "polyreme.nn.matmul"(%x, %y) {transpose_x = false, transpose_y = true} : (tensor<?x2x3xf32, ["N"]>, tensor<4x3xf32>) -> tensor<?x2x4xf32, ["N"]>
    "func.return"(%z) : (tensor<?x2x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x", "y"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>):
    %y = "polyreme.nn.max"(%x) {axis = [1 : i64], keepdims = false} : (tensor<?x4xf32, ["N"]>) -> tensor<?xf32, ["N"]>
    "func.return"(%y) : (tensor<?xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x1x4x4xf32, ["N"]>) -> tensor<?x1x2x2xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x1x4x4xf32, ["N"]>):
    %y = "polyreme.nn.max_pool"(%x) {kernel = [2 : i64, 2 : i64], strides = [2 : i64, 2 : i64], ceil_mode = false} : (tensor<?x1x4x4xf32, ["N"]>) -> tensor<?x1x2x2xf32, ["N"]>
    "func.return"(%y) : (tensor<?x1x2x2xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>, tensor<4xf32>) -> tensor<?x4xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>, %y: tensor<4xf32>):
    %z = "polyreme.nn.maximum"(%x, %y) : (tensor<?x4xf32, ["N"]>, tensor<4xf32>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%z) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x", "y"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>) -> tensor<4xf32>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>):
    %y = "polyreme.nn.mean"(%x) {axis = [0 : i64], keepdims = false} : (tensor<?x4xf32, ["N"]>) -> tensor<4xf32>
    "func.return"(%y) : (tensor<4xf32>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>):
    %y = "polyreme.nn.min"(%x) {axis = [1 : i64], keepdims = false} : (tensor<?x4xf32, ["N"]>) -> tensor<?xf32, ["N"]>
    "func.return"(%y) : (tensor<?xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>, tensor<4xf32>) -> tensor<?x4xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>, %y: tensor<4xf32>):
    %z = "polyreme.nn.minimum"(%x, %y) : (tensor<?x4xf32, ["N"]>, tensor<4xf32>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%z) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x", "y"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>, tensor<4xf32>) -> tensor<?x4xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>, %y: tensor<4xf32>):
    %z = "polyreme.nn.mod"(%x, %y) : (tensor<?x4xf32, ["N"]>, tensor<4xf32>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%z) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x", "y"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>, tensor<4xf32>) -> tensor<?x4xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>, %y: tensor<4xf32>):
    %z = "polyreme.nn.mul"(%x, %y) : (tensor<?x4xf32, ["N"]>, tensor<4xf32>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%z) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x", "y"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>):
    %y = "polyreme.nn.neg"(%x) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%y) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>, tensor<4xf32>) -> tensor<?x4xi1, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>, %y: tensor<4xf32>):
    %z = "polyreme.nn.not_equal"(%x, %y) : (tensor<?x4xf32, ["N"]>, tensor<4xf32>) -> tensor<?x4xi1, ["N"]>
    "func.return"(%z) : (tensor<?x4xi1, ["N"]>) -> ()
  }) {arg_names = ["x", "y"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x7xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>):
    %y = "polyreme.nn.pad"(%x) {padding = [0 : i64, 0 : i64, 1 : i64, 2 : i64], value = -1.000000e+00 : f64} : (tensor<?x4xf32, ["N"]>) -> tensor<?x7xf32, ["N"]>
    "func.return"(%y) : (tensor<?x7xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>, tensor<4xf32>) -> tensor<?x4xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>, %y: tensor<4xf32>):
    %z = "polyreme.nn.pow"(%x, %y) : (tensor<?x4xf32, ["N"]>, tensor<4xf32>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%z) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x", "y"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>):
    %y = "polyreme.nn.prod"(%x) {axis = [1 : i64], keepdims = false} : (tensor<?x4xf32, ["N"]>) -> tensor<?xf32, ["N"]>
    "func.return"(%y) : (tensor<?xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>, tensor<4xf32>) -> tensor<?x4xi8, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>, %s: tensor<4xf32>):
    %q = "polyreme.nn.quantize_linear"(%x, %s) {axis = 1 : i64, bit_length = 8 : i64, operandSegmentSizes = array<i32: 1, 1, 0>} : (tensor<?x4xf32, ["N"]>, tensor<4xf32>) -> tensor<?x4xi8, ["N"]>
    "func.return"(%q) : (tensor<?x4xi8, ["N"]>) -> ()
  }) {arg_names = ["x", "s"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?xcomplex<f32>, ["N"]>) -> tensor<?xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?xcomplex<f32>, ["N"]>):
    %y = "polyreme.nn.real"(%x) : (tensor<?xcomplex<f32>, ["N"]>) -> tensor<?xf32, ["N"]>
    "func.return"(%y) : (tensor<?xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>):
    %y = "polyreme.nn.reciprocal"(%x) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%y) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>):
    %y = "polyreme.nn.relu"(%x) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%y) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x2x3xf32, ["N"]>) -> tensor<?x6xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x2x3xf32, ["N"]>):
    %y = "polyreme.nn.reshape"(%x) {shape = [#polyreme.size<"N">, 6 : i64]} : (tensor<?x2x3xf32, ["N"]>) -> tensor<?x6xf32, ["N"]>
    "func.return"(%y) : (tensor<?x6xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>):
    %y = "polyreme.nn.round"(%x) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%y) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>):
    %y = "polyreme.nn.rsqrt"(%x) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%y) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<4x2xf32>, tensor<2x3x2xf32>, tensor<2x3xi64>) -> tensor<4x2xf32>}> ({
  ^bb0(%x: tensor<4x2xf32>, %u: tensor<2x3x2xf32>, %i: tensor<2x3xi64>):
    %y = "polyreme.nn.scatter"(%x, %u, %i) {axis = 0 : i64} : (tensor<4x2xf32>, tensor<2x3x2xf32>, tensor<2x3xi64>) -> tensor<4x2xf32>
    "func.return"(%y) : (tensor<4x2xf32>) -> ()
  }) {arg_names = ["x", "u", "i"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<2x3x2xf32>, tensor<2x3xi64>) -> tensor<4x2xf32>}> ({
  ^bb0(%u: tensor<2x3x2xf32>, %i: tensor<2x3xi64>):
    %y = "polyreme.nn.scatter_add"(%u, %i) {axis = 0 : i64, size = 4 : i64} : (tensor<2x3x2xf32>, tensor<2x3xi64>) -> tensor<4x2xf32>
    "func.return"(%y) : (tensor<4x2xf32>) -> ()
  }) {arg_names = ["u", "i"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>):
    %y = "polyreme.nn.sigmoid"(%x) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%y) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>):
    %y = "polyreme.nn.sign"(%x) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%y) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>):
    %y = "polyreme.nn.silu"(%x) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%y) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<3x2x4xf32>, tensor<4x4xf32>, tensor<2x4xf32>) -> tensor<3x2x4xf32>}> ({
  ^bb0(%x: tensor<3x2x4xf32>, %w: tensor<4x4xf32>, %s: tensor<2x4xf32>):
    %h = "polyreme.nn.simple_rnn"(%x, %w, %s) {activation = "tanh", reverse = false, operandSegmentSizes = array<i32: 1, 1, 1, 0>} : (tensor<3x2x4xf32>, tensor<4x4xf32>, tensor<2x4xf32>) -> tensor<3x2x4xf32>
    "func.return"(%h) : (tensor<3x2x4xf32>) -> ()
  }) {arg_names = ["x", "w", "s"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<4x4xf32>, tensor<3x2x4xf32>, tensor<3x2x4xf32>) -> (tensor<3x2x4xf32>, tensor<2x4xf32>)}> ({
  ^bb0(%w: tensor<4x4xf32>, %h: tensor<3x2x4xf32>, %d: tensor<3x2x4xf32>):
    %dx, %ds = "polyreme.nn.simple_rnn_gradient"(%w, %h, %d) {activation = "tanh", reverse = false, operandSegmentSizes = array<i32: 1, 1, 1, 0>} : (tensor<4x4xf32>, tensor<3x2x4xf32>, tensor<3x2x4xf32>) -> (tensor<3x2x4xf32>, tensor<2x4xf32>)
    "func.return"(%dx, %ds) : (tensor<3x2x4xf32>, tensor<2x4xf32>) -> ()
  }) {arg_names = ["w", "h", "d"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>):
    %y = "polyreme.nn.sin"(%x) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%y) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>):
    %y = "polyreme.nn.sinh"(%x) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%y) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x2xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>):
    %y = "polyreme.nn.slice"(%x) {starts = [0 : i64, 1 : i64], stops = [#polyreme.size<"N">, 4 : i64], strides = [1 : i64, 2 : i64]} : (tensor<?x4xf32, ["N"]>) -> tensor<?x2xf32, ["N"]>
    "func.return"(%y) : (tensor<?x2xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>):
    %y = "polyreme.nn.softmax"(%x) {axis = -1 : i64} : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%y) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>):
    %y = "polyreme.nn.softplus"(%x) {beta = 2.000000e+00 : f64, threshold = 2.000000e+01 : f64} : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%y) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>):
    %y = "polyreme.nn.sqrt"(%x) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%y) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>):
    %y = "polyreme.nn.square"(%x) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%y) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>, tensor<4xf32>, tensor<4xf32>) -> (tensor<?x4xf32, ["N"]>, tensor<?xf32, ["N"]>, tensor<?xf32, ["N"]>)}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>, %w: tensor<4xf32>, %b: tensor<4xf32>):
    %y, %mean, %variance = "polyreme.nn.standardize"(%x, %w, %b) {axes = [-1 : i64], affine = [-1 : i64], epsilon = 1.000000e-05 : f64, operandSegmentSizes = array<i32: 1, 1, 1>} : (tensor<?x4xf32, ["N"]>, tensor<4xf32>, tensor<4xf32>) -> (tensor<?x4xf32, ["N"]>, tensor<?xf32, ["N"]>, tensor<?xf32, ["N"]>)
    "func.return"(%y, %mean, %variance) : (tensor<?x4xf32, ["N"]>, tensor<?xf32, ["N"]>, tensor<?xf32, ["N"]>) -> ()
  }) {arg_names = ["x", "w", "b"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>, tensor<?x4xf32, ["N"]>, tensor<?xf32, ["N"]>, tensor<?xf32, ["N"]>, tensor<4xf32>) -> (tensor<?x4xf32, ["N"]>, tensor<4xf32>, tensor<4xf32>)}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>, %dy: tensor<?x4xf32, ["N"]>, %m: tensor<?xf32, ["N"]>, %v: tensor<?xf32, ["N"]>, %w: tensor<4xf32>):
    %dx, %dw, %db = "polyreme.nn.standardize_gradient"(%x, %dy, %m, %v, %w) {axes = [-1 : i64], affine = [-1 : i64], epsilon = 1.000000e-05 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1>} : (tensor<?x4xf32, ["N"]>, tensor<?x4xf32, ["N"]>, tensor<?xf32, ["N"]>, tensor<?xf32, ["N"]>, tensor<4xf32>) -> (tensor<?x4xf32, ["N"]>, tensor<4xf32>, tensor<4xf32>)
    "func.return"(%dx, %dw, %db) : (tensor<?x4xf32, ["N"]>, tensor<4xf32>, tensor<4xf32>) -> ()
  }) {arg_names = ["x", "dy", "m", "v", "w"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>):
    %y = "polyreme.nn.stop_gradient"(%x) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%y) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>, tensor<4xf32>) -> tensor<?x4xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>, %y: tensor<4xf32>):
    %z = "polyreme.nn.sub"(%x, %y) : (tensor<?x4xf32, ["N"]>, tensor<4xf32>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%z) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x", "y"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x1xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>):
    %y = "polyreme.nn.sum"(%x) {axis = [-1 : i64], keepdims = true} : (tensor<?x4xf32, ["N"]>) -> tensor<?x1xf32, ["N"]>
    "func.return"(%y) : (tensor<?x1xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>):
    %y = "polyreme.nn.tan"(%x) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%y) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>):
    %y = "polyreme.nn.tanh"(%x) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%y) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>) -> tensor<4x?xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>):
    %y = "polyreme.nn.transpose"(%x) {perm = [1 : i64, 0 : i64]} : (tensor<?x4xf32, ["N"]>) -> tensor<4x?xf32, ["N"]>
    "func.return"(%y) : (tensor<4x?xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>):
    %y = "polyreme.nn.trunc"(%x) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%y) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<313xui64>) -> (tensor<4xf32>, tensor<313xui64>)}> ({
  ^bb0(%s: tensor<313xui64>):
    %v, %next = "polyreme.nn.uniform"(%s) {shape = [4 : i64], low = -1.000000e+00 : f64, high = 1.000000e+00 : f64, dtype = f32} : (tensor<313xui64>) -> (tensor<4xf32>, tensor<313xui64>)
    "func.return"(%v, %next) : (tensor<4xf32>, tensor<313xui64>) -> ()
  }) {arg_names = ["s"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x1xi1, ["N"]>, tensor<4xf32>, tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>}> ({
  ^bb0(%c: tensor<?x1xi1, ["N"]>, %x: tensor<4xf32>, %y: tensor<?x4xf32, ["N"]>):
    %z = "polyreme.nn.where"(%c, %x, %y) : (tensor<?x1xi1, ["N"]>, tensor<4xf32>, tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%z) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["c", "x", "y"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x9xf32, ["N"]>) -> tensor<?x4x3xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x9xf32, ["N"]>):
    %w = "polyreme.nn.window"(%x) {axes = [1 : i64], sizes = [3 : i64], strides = [2 : i64], dilations = [1 : i64]} : (tensor<?x9xf32, ["N"]>) -> tensor<?x4x3xf32, ["N"]>
    "func.return"(%w) : (tensor<?x4x3xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?xi64, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>):
    %i = "polyreme.tensor.arg_reduce"(%x) {fn = "max", axis = 1 : i64, keepdims = false, dtype = i64} : (tensor<?x4xf32, ["N"]>) -> tensor<?xi64, ["N"]>
    "func.return"(%i) : (tensor<?xi64, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x2xi64, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>):
    %i = "polyreme.tensor.argsort"(%x) {descending = false, count = 2 : i64} : (tensor<?x4xf32, ["N"]>) -> tensor<?x2xi64, ["N"]>
    "func.return"(%i) : (tensor<?x2xi64, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x1xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x1xf32, ["N"]>):
    %y = "polyreme.tensor.broadcast"(%x) {shape = [#polyreme.size<"N">, 4 : i64]} : (tensor<?x1xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%y) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>, tensor<?x3xf32, ["N"]>) -> tensor<?x7xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>, %y: tensor<?x3xf32, ["N"]>):
    %z = "polyreme.tensor.concat"(%x, %y) {axis = 1 : i64} : (tensor<?x4xf32, ["N"]>, tensor<?x3xf32, ["N"]>) -> tensor<?x7xf32, ["N"]>
    "func.return"(%z) : (tensor<?x7xf32, ["N"]>) -> ()
  }) {arg_names = ["x", "y"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = () -> tensor<2xf32>}> ({
    %c = "polyreme.tensor.constant"() {value = dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>} : () -> tensor<2xf32>
    "func.return"(%c) : (tensor<2xf32>) -> ()
  }) : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>, tensor<4x3xf32>) -> tensor<?x3xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>, %y: tensor<4x3xf32>):
    %z = "polyreme.tensor.contract"(%x, %y) {spec = "mk,kn->mn"} : (tensor<?x4xf32, ["N"]>, tensor<4x3xf32>) -> tensor<?x3xf32, ["N"]>
    "func.return"(%z) : (tensor<?x3xf32, ["N"]>) -> ()
  }) {arg_names = ["x", "y"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>):
    %y = "polyreme.tensor.cumulate"(%x) {fn = "add", axis = 1 : i64} : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%y) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?xf32, ["N"]>) -> tensor<f32>}> ({
  ^bb0(%sizes: tensor<?xf32, ["N"]>):
    %n = "polyreme.tensor.dim_value"() {size = #polyreme.size<"3*N">, dtype = f32} : () -> tensor<f32>
    "func.return"(%n) : (tensor<f32>) -> ()
  }) {arg_names = ["sizes"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4x3xf32, ["N"]>) -> tensor<?x9xf32, ["N"]>}> ({
  ^bb0(%w: tensor<?x4x3xf32, ["N"]>):
    %x = "polyreme.tensor.fold"(%w) {axes = [1 : i64], sizes = [9 : i64], strides = [2 : i64], dilations = [1 : i64]} : (tensor<?x4x3xf32, ["N"]>) -> tensor<?x9xf32, ["N"]>
    "func.return"(%x) : (tensor<?x9xf32, ["N"]>) -> ()
  }) {arg_names = ["w"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?xf32, ["N"]>):
    %c = "polyreme.tensor.full"() {value = 5.000000e-01 : f64, shape = [#polyreme.size<"N">, 4 : i64], dtype = f32} : () -> tensor<?x4xf32, ["N"]>
    "func.return"(%c) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "main", function_type = (tensor<?x4xf32, ["N"]>, tensor<1x4xf32>) -> tensor<?x4xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>, %y: tensor<1x4xf32>):
    %z = "polyreme.tensor.fused"(%x, %y) ({
    ^bb0(%a: tensor<?x4xf32, ["N"]>, %b: tensor<1x4xf32>):
      %c = "polyreme.tensor.map"(%a, %b) {fn = "add"} : (tensor<?x4xf32, ["N"]>, tensor<1x4xf32>) -> tensor<?x4xf32, ["N"]>
      %d = "polyreme.tensor.map"(%c) {fn = "tanh"} : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
      "polyreme.tensor.yield"(%d) : (tensor<?x4xf32, ["N"]>) -> ()
    }) : (tensor<?x4xf32, ["N"]>, tensor<1x4xf32>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%z) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x", "y"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<4x2xf32>, tensor<2x3xi64>) -> tensor<2x3x2xf32>}> ({
  ^bb0(%x: tensor<4x2xf32>, %i: tensor<2x3xi64>):
    %y = "polyreme.tensor.gather"(%x, %i) {axis = 0 : i64} : (tensor<4x2xf32>, tensor<2x3xi64>) -> tensor<2x3x2xf32>
    "func.return"(%y) : (tensor<2x3x2xf32>) -> ()
  }) {arg_names = ["x", "i"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = () -> tensor<2x5xi64>}> ({
    %i = "polyreme.tensor.iota"() {shape = [2 : i64, 5 : i64], axis = 1 : i64, dtype = i64} : () -> tensor<2x5xi64>
    "func.return"(%i) : (tensor<2x5xi64>) -> ()
  }) : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>, tensor<1x4xf32>) -> tensor<?x4xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>, %y: tensor<1x4xf32>):
    %z = "polyreme.tensor.map"(%x, %y) {fn = "add"} : (tensor<?x4xf32, ["N"]>, tensor<1x4xf32>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%z) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x", "y"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x7xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>):
    %y = "polyreme.tensor.pad"(%x) {low = [0 : i64, 1 : i64], high = [0 : i64, 2 : i64], interior = [0 : i64, 0 : i64], value = 0.000000e+00 : f64} : (tensor<?x4xf32, ["N"]>) -> tensor<?x7xf32, ["N"]>
    "func.return"(%y) : (tensor<?x7xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?xcomplex<f32>, ["N"]>) -> tensor<?x2xf32, ["N"]>}> ({
  ^bb0(%z: tensor<?xcomplex<f32>, ["N"]>):
    %p = "polyreme.tensor.pairs"(%z) : (tensor<?xcomplex<f32>, ["N"]>) -> tensor<?x2xf32, ["N"]>
    "func.return"(%p) : (tensor<?x2xf32, ["N"]>) -> ()
  }) {arg_names = ["z"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<313xui64>) -> (tensor<4xf32>, tensor<313xui64>)}> ({
  ^bb0(%s: tensor<313xui64>):
    %v, %next = "polyreme.tensor.random"(%s) {shape = [4 : i64], low = -1.000000e+00 : f64, high = 1.000000e+00 : f64, dtype = f32} : (tensor<313xui64>) -> (tensor<4xf32>, tensor<313xui64>)
    "func.return"(%v, %next) : (tensor<4xf32>, tensor<313xui64>) -> ()
  }) {arg_names = ["s"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>):
    %s = "polyreme.tensor.reduce"(%x) {fn = "add", axes = [1 : i64], keepdims = false} : (tensor<?x4xf32, ["N"]>) -> tensor<?xf32, ["N"]>
    "func.return"(%s) : (tensor<?xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x2x3xf32, ["N"]>) -> tensor<?xf32, ["6*N"]>}> ({
  ^bb0(%x: tensor<?x2x3xf32, ["N"]>):
    %y = "polyreme.tensor.reshape"(%x) {shape = [#polyreme.size<"6*N">]} : (tensor<?x2x3xf32, ["N"]>) -> tensor<?xf32, ["6*N"]>
    "func.return"(%y) : (tensor<?xf32, ["6*N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>):
    %y = "polyreme.tensor.reverse"(%x) {axes = [1 : i64]} : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%y) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<3x2x4xf32>, tensor<2x4xf32>, tensor<4x4xf32>) -> (tensor<2x4xf32>, tensor<3x2x4xf32>)}> ({
  ^bb0(%x: tensor<3x2x4xf32>, %first: tensor<2x4xf32>, %w: tensor<4x4xf32>):
    %last, %all = "polyreme.tensor.scan"(%x, %first, %w) ({
    ^bb0(%xt: tensor<2x4xf32>, %h: tensor<2x4xf32>, %v: tensor<4x4xf32>):
      %u = "polyreme.tensor.contract"(%h, %v) {spec = "bk,nk->bn"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
      %a = "polyreme.tensor.map"(%u, %xt) {fn = "add"} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
      %next = "polyreme.tensor.map"(%a) {fn = "tanh"} : (tensor<2x4xf32>) -> tensor<2x4xf32>
      "polyreme.tensor.yield"(%next, %next) : (tensor<2x4xf32>, tensor<2x4xf32>) -> ()
    }) {steps = 3 : i64, reverse = false, operandSegmentSizes = array<i32: 1, 1, 1>} : (tensor<3x2x4xf32>, tensor<2x4xf32>, tensor<4x4xf32>) -> (tensor<2x4xf32>, tensor<3x2x4xf32>)
    "func.return"(%last, %all) : (tensor<2x4xf32>, tensor<3x2x4xf32>) -> ()
  }) {arg_names = ["x", "first", "w"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<4x2xf32>, tensor<2x3xi64>, tensor<2x3x2xf32>) -> tensor<4x2xf32>}> ({
  ^bb0(%x: tensor<4x2xf32>, %i: tensor<2x3xi64>, %u: tensor<2x3x2xf32>):
    %y = "polyreme.tensor.scatter"(%x, %i, %u) {axis = 0 : i64, fn = "add"} : (tensor<4x2xf32>, tensor<2x3xi64>, tensor<2x3x2xf32>) -> tensor<4x2xf32>
    "func.return"(%y) : (tensor<4x2xf32>) -> ()
  }) {arg_names = ["x", "i", "u"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>) -> tensor<?x2xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>):
    %y = "polyreme.tensor.slice"(%x) {starts = [0 : i64, 1 : i64], stops = [#polyreme.size<"N">, 4 : i64], strides = [1 : i64, 2 : i64]} : (tensor<?x4xf32, ["N"]>) -> tensor<?x2xf32, ["N"]>
    "func.return"(%y) : (tensor<?x2xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x4xf32, ["N"]>) -> tensor<4x?xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x4xf32, ["N"]>):
    %y = "polyreme.tensor.transpose"(%x) {perm = [1 : i64, 0 : i64]} : (tensor<?x4xf32, ["N"]>) -> tensor<4x?xf32, ["N"]>
    "func.return"(%y) : (tensor<4x?xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "example", function_type = (tensor<?x9xf32, ["N"]>) -> tensor<?x4x3xf32, ["N"]>}> ({
  ^bb0(%x: tensor<?x9xf32, ["N"]>):
    %w = "polyreme.tensor.window"(%x) {axes = [1 : i64], sizes = [3 : i64], strides = [2 : i64], dilations = [1 : i64]} : (tensor<?x9xf32, ["N"]>) -> tensor<?x4x3xf32, ["N"]>
    "func.return"(%w) : (tensor<?x4x3xf32, ["N"]>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "main", function_type = (tensor<4xf32>) -> tensor<4xf32>}> ({
  ^bb0(%x: tensor<4xf32>):
    %y = "polyreme.tensor.fused"(%x) ({
    ^bb0(%a: tensor<4xf32>):
      %b = "polyreme.tensor.map"(%a) {fn = "exp"} : (tensor<4xf32>) -> tensor<4xf32>
      "polyreme.tensor.yield"(%b) : (tensor<4xf32>) -> ()
    }) : (tensor<4xf32>) -> tensor<4xf32>
    "func.return"(%y) : (tensor<4xf32>) -> ()
  }) {arg_names = ["x"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "main", function_type = (tensor<1xf32>) -> tensor<1xf32>}> ({
  ^bb0(%x0: tensor<1xf32>):
    %0 = "polyreme.nn.tanh"(%x0) : (tensor<1xf32>) -> tensor<1xf32>
    %1 = "polyreme.nn.tanh"(%0) : (tensor<1xf32>) -> tensor<1xf32>
    "func.return"(%1) : (tensor<1xf32>) -> ()
  }) {arg_names = ["x0"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "main", function_type = (tensor<?x4xf32, ["N"]>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<?x4xf32, ["N"]>}> ({
  ^bb0(%x0: tensor<?x4xf32, ["N"]>, %w1: tensor<4x4xf32>, %w2: tensor<4x4xf32>):
    %0 = "polyreme.nn.full"() {value = 1.500000e+00 : f64, dtype = f32} : () -> tensor<f32>
    %1 = "polyreme.nn.matmul"(%x0, %w1) {transpose_x = false, transpose_y = false} : (tensor<?x4xf32, ["N"]>, tensor<4x4xf32>) -> tensor<?x4xf32, ["N"]>
    %2 = "polyreme.nn.erf"(%0) : (tensor<f32>) -> tensor<f32>
    %3 = "polyreme.nn.sum"(%0) {keepdims = false} : (tensor<f32>) -> tensor<f32>
    %4 = "polyreme.nn.sigmoid"(%1) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    %5 = "polyreme.nn.not_equal"(%w1, %w2) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xi1>
    %6 = "polyreme.nn.where"(%5, %w2, %w1) : (tensor<4x4xi1>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %7 = "polyreme.nn.log_softmax"(%1) {axis = 1 : i64} : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    "func.return"(%7) : (tensor<?x4xf32, ["N"]>) -> ()
  }) {arg_names = ["x0", "w1", "w2"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "main", function_type = (tensor<?x3x1xf32, ["N"]>) -> (tensor<?x4x5xf32, ["2*N"]>, tensor<?x4x5xf32, ["N"]>)}> ({
  ^bb0(%x0: tensor<?x3x1xf32, ["N"]>):
    %0 = "polyreme.nn.full"() {value = -2.500000e-01 : f64, shape = [#polyreme.size<"N">, 4 : i64, 5 : i64], dtype = f32} : () -> tensor<?x4x5xf32, ["N"]>
    %1 = "polyreme.nn.concat"(%0, %0) {axis = 0 : i64} : (tensor<?x4x5xf32, ["N"]>, tensor<?x4x5xf32, ["N"]>) -> tensor<?x4x5xf32, ["2*N"]>
    %2 = "polyreme.nn.constant"() {value = dense<2> : tensor<i64>} : () -> tensor<i64>
    %3 = "polyreme.nn.gather"(%0, %2) {axis = 1 : i64} : (tensor<?x4x5xf32, ["N"]>, tensor<i64>) -> tensor<?x5xf32, ["N"]>
    %4 = "polyreme.nn.scatter_add"(%3, %2) {axis = 1 : i64, size = 4 : i64} : (tensor<?x5xf32, ["N"]>, tensor<i64>) -> tensor<?x4x5xf32, ["N"]>
    "func.return"(%1, %4) : (tensor<?x4x5xf32, ["2*N"]>, tensor<?x4x5xf32, ["N"]>) -> ()
  }) {arg_names = ["x0"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "main", function_type = (tensor<1xf32>) -> tensor<1xf32>}> ({
  ^bb0(%x0: tensor<1xf32>):
    %0 = "polyreme.nn.tanh"(%x0) : (tensor<1xf32>) -> tensor<1xf32>
    %1 = "polyreme.nn.tanh"(%0) : (tensor<1xf32>) -> tensor<1xf32>
    "func.return"(%1) : (tensor<1xf32>) -> ()
  }) {arg_names = ["x0"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "main", function_type = (tensor<?x4xf32, ["N"]>) -> tensor<1x5x4xf32>}> ({
  ^bb0(%x0: tensor<?x4xf32, ["N"]>):
    %0, %1 = "polyreme.dist.all_reduce_start"(%x0, %x0) {reduce = "sum", bucket = 3 : i64} : (tensor<?x4xf32, ["N"]>, tensor<?x4xf32, ["N"]>) -> (!polyreme.pending<?x4xf32, ["N"]>, !polyreme.pending<?x4xf32, ["N"]>)
    %2 = "polyreme.nn.leaky_relu"(%x0) {alpha = 1.000000e-02 : f64} : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    %3, %4 = "polyreme.dist.wait"(%0, %1) : (!polyreme.pending<?x4xf32, ["N"]>, !polyreme.pending<?x4xf32, ["N"]>) -> (tensor<?x4xf32, ["N"]>, tensor<?x4xf32, ["N"]>)
    %5 = "polyreme.nn.max"(%4) {axis = [0 : i64, 1 : i64], keepdims = true} : (tensor<?x4xf32, ["N"]>) -> tensor<1x1xf32>
    %6 = "polyreme.nn.pad"(%5) {padding = [2 : i64, 2 : i64, 1 : i64, 2 : i64], value = 1.500000e+00 : f64} : (tensor<1x1xf32>) -> tensor<5x4xf32>
    %7 = "polyreme.dist.all_gather"(%5) {ranks = 1 : i64} : (tensor<1x1xf32>) -> tensor<1x1x1xf32>
    %8 = "polyreme.nn.full"() {value = 8.000000e+00 : f64, dtype = f32} : () -> tensor<f32>
    %9 = "polyreme.nn.mul"(%x0, %8) : (tensor<?x4xf32, ["N"]>, tensor<f32>) -> tensor<?x4xf32, ["N"]>
    %10 = "polyreme.nn.cast"(%9) {dtype = i64} : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xi64, ["N"]>
    %11 = "polyreme.nn.full"() {value = -3 : i64, dtype = i64} : () -> tensor<i64>
    %12 = "polyreme.nn.mul"(%10, %11) : (tensor<?x4xi64, ["N"]>, tensor<i64>) -> tensor<?x4xi64, ["N"]>
    %13 = "polyreme.nn.cast"(%12) {dtype = f32} : (tensor<?x4xi64, ["N"]>) -> tensor<?x4xf32, ["N"]>
    %14 = "polyreme.nn.reshape"(%5) {shape = [1 : i64]} : (tensor<1x1xf32>) -> tensor<1xf32>
    %15 = "polyreme.dist.all_gather"(%6) {ranks = 1 : i64} : (tensor<5x4xf32>) -> tensor<1x5x4xf32>
    "func.return"(%15) : (tensor<1x5x4xf32>) -> ()
  }) {arg_names = ["x0"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "main", function_type = (tensor<?x4x4x5xf32, ["N"]>, tensor<?x4x4x5xf32, ["N"]>) -> tensor<1x?x4x4x5xf32, ["N"]>}> ({
  ^bb0(%x0: tensor<?x4x4x5xf32, ["N"]>, %x1: tensor<?x4x4x5xf32, ["N"]>):
    %0 = "polyreme.nn.max_pool"(%x0) {kernel = [3 : i64, 3 : i64], strides = [1 : i64, 1 : i64], padding = [0 : i64, 0 : i64, 1 : i64, 1 : i64], ceil_mode = false} : (tensor<?x4x4x5xf32, ["N"]>) -> tensor<?x4x2x5xf32, ["N"]>
    %1 = "polyreme.nn.erf"(%x0) : (tensor<?x4x4x5xf32, ["N"]>) -> tensor<?x4x4x5xf32, ["N"]>
    %2 = "polyreme.nn.log_softmax"(%x0) {axis = 0 : i64} : (tensor<?x4x4x5xf32, ["N"]>) -> tensor<?x4x4x5xf32, ["N"]>
    %3 = "polyreme.dist.all_gather"(%x0) {ranks = 1 : i64} : (tensor<?x4x4x5xf32, ["N"]>) -> tensor<1x?x4x4x5xf32, ["N"]>
    "func.return"(%3) : (tensor<1x?x4x4x5xf32, ["N"]>) -> ()
  }) {arg_names = ["x0", "x1"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "main", function_type = (tensor<1xf32>) -> tensor<1xf32>}> ({
  ^bb0(%x0: tensor<1xf32>):
    %0 = "polyreme.tensor.map"(%x0) {fn = "tanh"} : (tensor<1xf32>) -> tensor<1xf32>
    %1 = "polyreme.tensor.map"(%0) {fn = "tanh"} : (tensor<1xf32>) -> tensor<1xf32>
    "func.return"(%1) : (tensor<1xf32>) -> ()
  }) {arg_names = ["x0"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "main", function_type = (tensor<?x4xf32, ["N"]>, tensor<?xf32, ["N"]>) -> tensor<?xf32, ["N"]>}> ({
  ^bb0(%x0: tensor<?x4xf32, ["N"]>, %w1: tensor<?xf32, ["N"]>):
    %0 = "polyreme.tensor.constant"() {value = dense<2> : tensor<i64>} : () -> tensor<i64>
    %1 = "polyreme.tensor.gather"(%x0, %0) {axis = 1 : i64} : (tensor<?x4xf32, ["N"]>, tensor<i64>) -> tensor<?xf32, ["N"]>
    %2 = "polyreme.tensor.argsort"(%x0) {descending = false} : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xi64, ["N"]>
    %3 = "polyreme.tensor.map"(%2) {fn = "cast", dtype = f32} : (tensor<?x4xi64, ["N"]>) -> tensor<?x4xf32, ["N"]>
    %4 = "polyreme.tensor.map"(%1, %1) {fn = "max"} : (tensor<?xf32, ["N"]>, tensor<?xf32, ["N"]>) -> tensor<?xf32, ["N"]>
    %5 = "polyreme.tensor.map"(%3) {fn = "tanh"} : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    %6 = "polyreme.tensor.map"(%1, %w1) {fn = "min"} : (tensor<?xf32, ["N"]>, tensor<?xf32, ["N"]>) -> tensor<?xf32, ["N"]>
    %7 = "polyreme.tensor.cumulate"(%1) {fn = "min", axis = 0 : i64} : (tensor<?xf32, ["N"]>) -> tensor<?xf32, ["N"]>
    "func.return"(%7) : (tensor<?xf32, ["N"]>) -> ()
  }) {arg_names = ["x0", "w1"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "main", function_type = (tensor<?x3x1xf32, ["N"]>) -> (tensor<?x3xf32, ["N"]>, tensor<?x7xf32, ["N+max(0, N-1)+1"]>)}> ({
  ^bb0(%x0: tensor<?x3x1xf32, ["N"]>):
    %0 = "polyreme.tensor.constant"() {value = dense<0> : tensor<i64>} : () -> tensor<i64>
    %1 = "polyreme.tensor.gather"(%x0, %0) {axis = 2 : i64} : (tensor<?x3x1xf32, ["N"]>, tensor<i64>) -> tensor<?x3xf32, ["N"]>
    %2 = "polyreme.tensor.reduce"(%1) {fn = "min", axes = [], keepdims = true} : (tensor<?x3xf32, ["N"]>) -> tensor<?x3xf32, ["N"]>
    %3 = "polyreme.tensor.pad"(%2) {low = [0 : i64, 0 : i64], high = [1 : i64, 0 : i64], interior = [1 : i64, 2 : i64], value = -1.500000e+00 : f64} : (tensor<?x3xf32, ["N"]>) -> tensor<?x7xf32, ["N+max(0, N-1)+1"]>
    "func.return"(%2, %3) : (tensor<?x3xf32, ["N"]>, tensor<?x7xf32, ["N+max(0, N-1)+1"]>) -> ()
  }) {arg_names = ["x0"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "main", function_type = (tensor<1xf32>) -> tensor<1xf32>}> ({
  ^bb0(%x0: tensor<1xf32>):
    %0 = "polyreme.tensor.fused"(%x0) ({
    ^bb0(%1: tensor<1xf32>):
      %2 = "polyreme.tensor.map"(%1) {fn = "tanh"} : (tensor<1xf32>) -> tensor<1xf32>
      "polyreme.tensor.yield"(%2) : (tensor<1xf32>) -> ()
    }) : (tensor<1xf32>) -> tensor<1xf32>
    %3 = "polyreme.tensor.map"(%0) {fn = "tanh"} : (tensor<1xf32>) -> tensor<1xf32>
    "func.return"(%3) : (tensor<1xf32>) -> ()
  }) {arg_names = ["x0"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "main", function_type = (tensor<?x4xf32, ["N"]>, tensor<?xf32, ["N"]>) -> tensor<?xf32, ["N"]>}> ({
  ^bb0(%x0: tensor<?x4xf32, ["N"]>, %w1: tensor<?xf32, ["N"]>):
    %0 = "polyreme.tensor.constant"() {value = dense<2> : tensor<i64>} : () -> tensor<i64>
    %1 = "polyreme.tensor.gather"(%x0, %0) {axis = 1 : i64} : (tensor<?x4xf32, ["N"]>, tensor<i64>) -> tensor<?xf32, ["N"]>
    %2 = "polyreme.tensor.fused"(%x0) ({
    ^bb0(%3: tensor<?x4xf32, ["N"]>):
      %4 = "polyreme.tensor.argsort"(%3) {descending = false} : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xi64, ["N"]>
      "polyreme.tensor.yield"(%4) : (tensor<?x4xi64, ["N"]>) -> ()
    }) : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xi64, ["N"]>
    %5 = "polyreme.tensor.map"(%2) {fn = "cast", dtype = f32} : (tensor<?x4xi64, ["N"]>) -> tensor<?x4xf32, ["N"]>
    %6 = "polyreme.tensor.map"(%1, %1) {fn = "max"} : (tensor<?xf32, ["N"]>, tensor<?xf32, ["N"]>) -> tensor<?xf32, ["N"]>
    %7 = "polyreme.tensor.map"(%5) {fn = "tanh"} : (tensor<?x4xf32, ["N"]>) -> tensor<?x4xf32, ["N"]>
    %8 = "polyreme.tensor.map"(%1, %w1) {fn = "min"} : (tensor<?xf32, ["N"]>, tensor<?xf32, ["N"]>) -> tensor<?xf32, ["N"]>
    %9 = "polyreme.tensor.cumulate"(%1) {fn = "min", axis = 0 : i64} : (tensor<?xf32, ["N"]>) -> tensor<?xf32, ["N"]>
    "func.return"(%9) : (tensor<?xf32, ["N"]>) -> ()
  }) {arg_names = ["x0", "w1"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "main", function_type = (tensor<4x5x2x2xf32>, tensor<3xf32>, tensor<3x3x2x4xf32>, tensor<4x5x2x2xf32>) -> (tensor<3xf32>, tensor<5x4xf32>)}> ({
  ^bb0(%x0: tensor<4x5x2x2xf32>, %x1: tensor<3xf32>, %x2: tensor<3x3x2x4xf32>, %x3: tensor<4x5x2x2xf32>):
    %0 = "polyreme.tensor.map"(%x0, %x0) {fn = "mul"} : (tensor<4x5x2x2xf32>, tensor<4x5x2x2xf32>) -> tensor<4x5x2x2xf32>
    %1 = "polyreme.tensor.transpose"(%0) {perm = [2 : i64, 0 : i64, 1 : i64, 3 : i64]} : (tensor<4x5x2x2xf32>) -> tensor<2x4x5x2xf32>
    %2 = "polyreme.tensor.reverse"(%1) {axes = []} : (tensor<2x4x5x2xf32>) -> tensor<2x4x5x2xf32>
    %3 = "polyreme.tensor.iota"() {shape = [4 : i64, 5 : i64], axis = 0 : i64, dtype = f32} : () -> tensor<4x5xf32>
    %4 = "polyreme.tensor.reduce"(%x3) {fn = "max", axes = [], keepdims = true} : (tensor<4x5x2x2xf32>) -> tensor<4x5x2x2xf32>
    %5 = "polyreme.tensor.window"(%x1) {axes = [0 : i64], sizes = [1 : i64], strides = [1 : i64], dilations = [1 : i64]} : (tensor<3xf32>) -> tensor<3x1xf32>
    %6 = "polyreme.tensor.fused"(%5) ({
    ^bb0(%7: tensor<3x1xf32>):
      %8 = "polyreme.tensor.reduce"(%7) {fn = "max", axes = [1 : i64], keepdims = false} : (tensor<3x1xf32>) -> tensor<3xf32>
      "polyreme.tensor.yield"(%8) : (tensor<3xf32>) -> ()
    }) : (tensor<3x1xf32>) -> tensor<3xf32>
    %9 = "polyreme.tensor.transpose"(%3) {perm = [1 : i64, 0 : i64]} : (tensor<4x5xf32>) -> tensor<5x4xf32>
    "func.return"(%6, %9) : (tensor<3xf32>, tensor<5x4xf32>) -> ()
  }) {arg_names = ["x0", "x1", "x2", "x3"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "main", function_type = (!polyreme.buffer<1xf32>, !polyreme.buffer<f32>) -> ()}> ({
  ^bb0(%x0: !polyreme.buffer<1xf32>, %y0: !polyreme.buffer<f32>):
    "polyreme.kernel.call"(%x0, %y0) {callee = @k2} : (!polyreme.buffer<1xf32>, !polyreme.buffer<f32>) -> ()
    "func.return"() : () -> ()
  }) {arg_names = ["x0", "y0"], arg_roles = ["input", "output"]} : () -> ()
  "func.func"() <{sym_name = "k2", function_type = (!polyreme.buffer<1xf32>, !polyreme.buffer<f32>) -> ()}> ({
  ^bb0(%a0: !polyreme.buffer<1xf32>, %out: !polyreme.buffer<f32>):
    %0 = "polyreme.kernel.constant"() {value = 1 : i64, dtype = index} : () -> index
    %1 = "polyreme.kernel.constant"() {value = 0 : i64, dtype = index} : () -> index
    %2 = "polyreme.kernel.constant"() {value = 0 : i64, dtype = index} : () -> index
    %3 = "polyreme.kernel.apply"(%0, %2) {fn = "add"} : (index, index) -> index
    %4 = "polyreme.kernel.constant"() {value = 1 : i64, dtype = index} : () -> index
    %5 = "polyreme.kernel.apply"(%3, %4) {fn = "div"} : (index, index) -> index
    "polyreme.kernel.for"(%1, %5) ({
    ^bb0(%i: index):
      %6 = "polyreme.kernel.constant"() {value = 1 : i64, dtype = index} : () -> index
      %7 = "polyreme.kernel.apply"(%i, %6) {fn = "mul"} : (index, index) -> index
      %8 = "polyreme.kernel.apply"(%0, %7) {fn = "sub"} : (index, index) -> index
      %9 = "polyreme.kernel.lane_mask"(%8) {lanes = 1 : i64} : (index) -> i1
      %10 = "polyreme.kernel.load"(%a0, %7, %9) {lanes = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1>} : (!polyreme.buffer<1xf32>, index, i1) -> f32
      "polyreme.kernel.store"(%10, %out, %7, %9) {streaming = false, operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (f32, !polyreme.buffer<f32>, index, i1) -> ()
      "polyreme.kernel.yield"() : () -> ()
    }) {step = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 0>} : (index, index) -> ()
    "func.return"() : () -> ()
  }) {arg_names = ["a0", "out"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "main", function_type = (!polyreme.buffer<?x5xf32, ["N"]>, !polyreme.buffer<f32>, !polyreme.buffer<f32>) -> ()}> ({
  ^bb0(%x0: !polyreme.buffer<?x5xf32, ["N"]>, %y0: !polyreme.buffer<f32>, %y1: !polyreme.buffer<f32>):
    %0 = "polyreme.kernel.alloc"() {shape = [], dtype = f32, space = "arena", of_thread = 0 : i64} : () -> !polyreme.buffer<f32>
    %1 = "polyreme.kernel.view"(%x0) {shape = [#polyreme.size<"5*N">], operandSegmentSizes = array<i32: 1, 0>} : (!polyreme.buffer<?x5xf32, ["N"]>) -> !polyreme.buffer<?xf32, ["5*N"]>
    "polyreme.kernel.call"(%x0, %1, %0) {callee = @k1} : (!polyreme.buffer<?x5xf32, ["N"]>, !polyreme.buffer<?xf32, ["5*N"]>, !polyreme.buffer<f32>) -> ()
    %2 = "polyreme.kernel.view"(%x0) {shape = [#polyreme.size<"5*N">], operandSegmentSizes = array<i32: 1, 0>} : (!polyreme.buffer<?x5xf32, ["N"]>) -> !polyreme.buffer<?xf32, ["5*N"]>
    %3 = "polyreme.kernel.size"() {value = 1 : i64} : () -> index
    "polyreme.kernel.call"(%2, %0, %y0, %3) {callee = @k2} : (!polyreme.buffer<?xf32, ["5*N"]>, !polyreme.buffer<f32>, !polyreme.buffer<f32>, index) -> ()
    "polyreme.kernel.call"(%y0, %y1) {callee = @k3} : (!polyreme.buffer<f32>, !polyreme.buffer<f32>) -> ()
    "func.return"() : () -> ()
  }) {arg_names = ["x0", "y0", "y1"], arg_roles = ["input", "output", "output"]} : () -> ()
  "func.func"() <{sym_name = "k1", function_type = (!polyreme.buffer<?x5xf32, ["N"]>, !polyreme.buffer<?xf32, ["5*N"]>, !polyreme.buffer<f32>) -> ()}> ({
  ^bb0(%a0: !polyreme.buffer<?x5xf32, ["N"]>, %a1: !polyreme.buffer<?xf32, ["5*N"]>, %out: !polyreme.buffer<f32>):
    %0 = "polyreme.kernel.constant"() {value = 1 : i64, dtype = index} : () -> index
    %1 = "polyreme.kernel.constant"() {value = 0xfff0000000000000 : f64, dtype = f32} : () -> f32
    %2 = "polyreme.kernel.constant"() {value = 0 : i64, dtype = index} : () -> index
    %3 = "polyreme.kernel.size"() {value = #polyreme.size<"5*N">} : () -> index
    %4 = "polyreme.kernel.for"(%2, %3, %1) ({
    ^bb0(%i: index, %5: f32):
      %6 = "polyreme.kernel.load"(%a1, %i) {lanes = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 0>} : (!polyreme.buffer<?xf32, ["5*N"]>, index) -> f32
      %7 = "polyreme.kernel.apply"(%5, %6) {fn = "max"} : (f32, f32) -> f32
      "polyreme.kernel.yield"(%7) : (f32) -> ()
    }) {step = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1>} : (index, index, f32) -> f32
    "polyreme.kernel.parallel"(%0) ({
    ^bb0(%i_1: index):
      %8 = "polyreme.kernel.size"() {value = #polyreme.size<"5*N">} : () -> index
      %9 = "polyreme.kernel.apply"(%i_1, %8) {fn = "mod"} : (index, index) -> index
      %10 = "polyreme.kernel.load"(%a1, %9) {lanes = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 0>} : (!polyreme.buffer<?xf32, ["5*N"]>, index) -> f32
      %11 = "polyreme.kernel.broadcast"(%10) {lanes = 1 : i64} : (f32) -> f32
      %12 = "polyreme.kernel.apply"(%4, %11) {fn = "add"} : (f32, f32) -> f32
      "polyreme.kernel.store"(%12, %out, %i_1) {streaming = false, operandSegmentSizes = array<i32: 1, 1, 1, 0>} : (f32, !polyreme.buffer<f32>, index) -> ()
      "polyreme.kernel.yield"() : () -> ()
    }) {grain = 1 : i64} : (index) -> ()
    "func.return"() : () -> ()
  }) {arg_names = ["a0", "a1", "out"]} : () -> ()
  "func.func"() <{sym_name = "k2", function_type = (!polyreme.buffer<?xf32, ["5*N"]>, !polyreme.buffer<f32>, !polyreme.buffer<f32>, index) -> ()}> ({
  ^bb0(%a0: !polyreme.buffer<?xf32, ["5*N"]>, %a1: !polyreme.buffer<f32>, %out: !polyreme.buffer<f32>, %n: index):
    %0 = "polyreme.kernel.constant"() {value = 0 : i64, dtype = index} : () -> index
    %1 = "polyreme.kernel.constant"() {value = 1 : i64, dtype = index} : () -> index
    %2 = "polyreme.kernel.apply"(%n, %1) {fn = "sub"} : (index, index) -> index
    "polyreme.kernel.for"(%0, %n) ({
    ^bb0(%i: index):
      %3 = "polyreme.kernel.apply"(%n, %i) {fn = "sub"} : (index, index) -> index
      %4 = "polyreme.kernel.lane_mask"(%3) {lanes = 1 : i64} : (index) -> i1
      %5 = "polyreme.kernel.load"(%a1, %i, %4) {lanes = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1>} : (!polyreme.buffer<f32>, index, i1) -> f32
      %6 = "polyreme.kernel.apply"(%2, %i) {fn = "sub"} : (index, index) -> index
      %7 = "polyreme.kernel.broadcast"(%6) {lanes = 1 : i64} : (index) -> index
      "polyreme.kernel.scatter"(%5, %out, %7, %4) {operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (f32, !polyreme.buffer<f32>, index, i1) -> ()
      "polyreme.kernel.yield"() : () -> ()
    }) {step = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 0>} : (index, index) -> ()
    "func.return"() : () -> ()
  }) {arg_names = ["a0", "a1", "out", "n"]} : () -> ()
  "func.func"() <{sym_name = "k3", function_type = (!polyreme.buffer<f32>, !polyreme.buffer<f32>) -> ()}> ({
  ^bb0(%a0: !polyreme.buffer<f32>, %out: !polyreme.buffer<f32>):
    %0 = "polyreme.kernel.constant"() {value = 1 : i64, dtype = index} : () -> index
    %1 = "polyreme.kernel.constant"() {value = 0 : i64, dtype = index} : () -> index
    %2 = "polyreme.kernel.constant"() {value = 1 : i64, dtype = index} : () -> index
    %3 = "polyreme.kernel.apply"(%0, %2) {fn = "add"} : (index, index) -> index
    %4 = "polyreme.kernel.constant"() {value = 2 : i64, dtype = index} : () -> index
    %5 = "polyreme.kernel.apply"(%3, %4) {fn = "div"} : (index, index) -> index
    "polyreme.kernel.for"(%1, %5) ({
    ^bb0(%i: index):
      %6 = "polyreme.kernel.constant"() {value = 2 : i64, dtype = index} : () -> index
      %7 = "polyreme.kernel.apply"(%i, %6) {fn = "mul"} : (index, index) -> index
      %8 = "polyreme.kernel.apply"(%0, %7) {fn = "sub"} : (index, index) -> index
      %9 = "polyreme.kernel.lane_mask"(%8) {lanes = 2 : i64} : (index) -> vector<2xi1>
      %10 = "polyreme.kernel.constant"() {value = 1 : i64, dtype = index} : () -> index
      %11 = "polyreme.kernel.apply"(%7, %10) {fn = "mod"} : (index, index) -> index
      %12 = "polyreme.kernel.load"(%a0, %11) {lanes = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 0>} : (!polyreme.buffer<f32>, index) -> f32
      %13 = "polyreme.kernel.broadcast"(%12) {lanes = 2 : i64} : (f32) -> vector<2xf32>
      %14 = "polyreme.kernel.apply"(%13) {fn = "sigmoid"} : (vector<2xf32>) -> vector<2xf32>
      %15 = "polyreme.kernel.apply"(%14) {fn = "tanh"} : (vector<2xf32>) -> vector<2xf32>
      %16 = "polyreme.kernel.load"(%a0, %7, %9) {lanes = 2 : i64, operandSegmentSizes = array<i32: 1, 1, 1>} : (!polyreme.buffer<f32>, index, vector<2xi1>) -> vector<2xf32>
      %17 = "polyreme.kernel.apply"(%15, %16) {fn = "mul"} : (vector<2xf32>, vector<2xf32>) -> vector<2xf32>
      "polyreme.kernel.store"(%17, %out, %7, %9) {streaming = false, operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (vector<2xf32>, !polyreme.buffer<f32>, index, vector<2xi1>) -> ()
      "polyreme.kernel.yield"() : () -> ()
    }) {step = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 0>} : (index, index) -> ()
    "func.return"() : () -> ()
  }) {arg_names = ["a0", "out"]} : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
  "func.func"() <{sym_name = "main", function_type = (!polyreme.buffer<2x3xf32>, !polyreme.buffer<f32>, !polyreme.buffer<5x4xf32>) -> ()}> ({
  ^bb0(%x0: !polyreme.buffer<2x3xf32>, %x1: !polyreme.buffer<f32>, %y0: !polyreme.buffer<5x4xf32>):
    %0 = "polyreme.kernel.data"() {value = dense<[1.375000e+00, 1.125000e+00, 1.875000e+00]> : tensor<3xf32>} : () -> !polyreme.buffer<3xf32>
    %1 = "polyreme.kernel.alloc"() {shape = [], dtype = f32, space = "arena", of_thread = 0 : i64} : () -> !polyreme.buffer<f32>
    %2 = "polyreme.kernel.view"(%0) {shape = [3 : i64], operandSegmentSizes = array<i32: 1, 0>} : (!polyreme.buffer<3xf32>) -> !polyreme.buffer<3xf32>
    %3 = "polyreme.kernel.view"(%0) {shape = [3 : i64], operandSegmentSizes = array<i32: 1, 0>} : (!polyreme.buffer<3xf32>) -> !polyreme.buffer<3xf32>
    "polyreme.kernel.call"(%2, %3, %1) {callee = @k0} : (!polyreme.buffer<3xf32>, !polyreme.buffer<3xf32>, !polyreme.buffer<f32>) -> ()
    %4 = "polyreme.kernel.alloc"() {shape = [4 : i64, 2 : i64], dtype = f32, space = "arena", of_thread = 0 : i64} : () -> !polyreme.buffer<4x2xf32>
    "polyreme.kernel.call"(%x0, %1, %4) {callee = @k1} : (!polyreme.buffer<2x3xf32>, !polyreme.buffer<f32>, !polyreme.buffer<4x2xf32>) -> ()
    "polyreme.kernel.call"(%1, %x1, %y0) {callee = @k2} : (!polyreme.buffer<f32>, !polyreme.buffer<f32>, !polyreme.buffer<5x4xf32>) -> ()
    "func.return"() : () -> ()
  }) {arg_names = ["x0", "x1", "y0"], arg_roles = ["input", "input", "output"]} : () -> ()
  "func.func"() <{sym_name = "k0", function_type = (!polyreme.buffer<3xf32>, !polyreme.buffer<3xf32>, !polyreme.buffer<f32>) -> ()}> ({
  ^bb0(%a0: !polyreme.buffer<3xf32>, %a1: !polyreme.buffer<3xf32>, %out: !polyreme.buffer<f32>):
    %0 = "polyreme.kernel.size"() {value = 1 : i64} : () -> index
    %1 = "polyreme.kernel.constant"() {value = 0x7ff0000000000000 : f64, dtype = f32} : () -> f32
    %2 = "polyreme.kernel.constant"() {value = 0 : i64, dtype = index} : () -> index
    %3 = "polyreme.kernel.size"() {value = 3 : i64} : () -> index
    %4 = "polyreme.kernel.for"(%2, %3, %1) ({
    ^bb0(%i: index, %5: f32):
      %6 = "polyreme.kernel.load"(%a1, %i) {lanes = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 0>} : (!polyreme.buffer<3xf32>, index) -> f32
      %7 = "polyreme.kernel.apply"(%5, %6) {fn = "min"} : (f32, f32) -> f32
      "polyreme.kernel.yield"(%7) : (f32) -> ()
    }) {step = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1>} : (index, index, f32) -> f32
    "polyreme.kernel.parallel"(%0) ({
    ^bb0(%i_1: index):
      %8 = "polyreme.kernel.size"() {value = 3 : i64} : () -> index
      %9 = "polyreme.kernel.apply"(%i_1, %8) {fn = "mod"} : (index, index) -> index
      %10 = "polyreme.kernel.load"(%a1, %9) {lanes = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 0>} : (!polyreme.buffer<3xf32>, index) -> f32
      %11 = "polyreme.kernel.broadcast"(%10) {lanes = 1 : i64} : (f32) -> f32
      %12 = "polyreme.kernel.apply"(%4, %11) {fn = "add"} : (f32, f32) -> f32
      "polyreme.kernel.store"(%12, %out, %i_1) {streaming = false, operandSegmentSizes = array<i32: 1, 1, 1, 0>} : (f32, !polyreme.buffer<f32>, index) -> ()
      "polyreme.kernel.yield"() : () -> ()
    }) {grain = 1 : i64} : (index) -> ()
    "func.return"() : () -> ()
  }) {arg_names = ["a0", "a1", "out"]} : () -> ()
  "func.func"() <{sym_name = "k1", function_type = (!polyreme.buffer<2x3xf32>, !polyreme.buffer<f32>, !polyreme.buffer<4x2xf32>) -> ()}> ({
  ^bb0(%a0: !polyreme.buffer<2x3xf32>, %a1: !polyreme.buffer<f32>, %out: !polyreme.buffer<4x2xf32>):
    %0 = "polyreme.kernel.size"() {value = 8 : i64} : () -> index
    %1 = "polyreme.kernel.constant"() {value = 3 : i64, dtype = index} : () -> index
    %2 = "polyreme.kernel.apply"(%0, %1) {fn = "add"} : (index, index) -> index
    %3 = "polyreme.kernel.constant"() {value = 4 : i64, dtype = index} : () -> index
    %4 = "polyreme.kernel.apply"(%2, %3) {fn = "div"} : (index, index) -> index
    "polyreme.kernel.parallel"(%4) ({
    ^bb0(%i: index):
      %5 = "polyreme.kernel.constant"() {value = 4 : i64, dtype = index} : () -> index
      %6 = "polyreme.kernel.apply"(%i, %5) {fn = "mul"} : (index, index) -> index
      %7 = "polyreme.kernel.alloc"() {shape = [4 : i64], dtype = f32, space = "local", of_thread = 0 : i64} : () -> !polyreme.buffer<4xf32>
      %8 = "polyreme.kernel.constant"() {value = 0 : i64, dtype = index} : () -> index
      %9 = "polyreme.kernel.constant"() {value = 4 : i64, dtype = index} : () -> index
      "polyreme.kernel.for"(%8, %9) ({
      ^bb0(%i_1: index):
        %10 = "polyreme.kernel.apply"(%6, %i_1) {fn = "add"} : (index, index) -> index
        %11 = "polyreme.kernel.constant"() {value = 1 : i64, dtype = index} : () -> index
        %12 = "polyreme.kernel.apply"(%0, %11) {fn = "sub"} : (index, index) -> index
        %13 = "polyreme.kernel.apply"(%10, %12) {fn = "min"} : (index, index) -> index
        %14 = "polyreme.kernel.constant"() {value = 1 : i64, dtype = index} : () -> index
        %15 = "polyreme.kernel.apply"(%13, %14) {fn = "mod"} : (index, index) -> index
        %16 = "polyreme.kernel.load"(%a1, %15) {lanes = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 0>} : (!polyreme.buffer<f32>, index) -> f32
        %17 = "polyreme.kernel.broadcast"(%16) {lanes = 1 : i64} : (f32) -> f32
        %18 = "polyreme.kernel.constant"() {value = 8.000000e+00 : f64, dtype = f32} : () -> f32
        %19 = "polyreme.kernel.broadcast"(%18) {lanes = 1 : i64} : (f32) -> f32
        %20 = "polyreme.kernel.apply"(%17, %19) {fn = "mul"} : (f32, f32) -> f32
        %21 = "polyreme.kernel.apply"(%20) {fn = "cast", dtype = i32} : (f32) -> i32
        %22 = "polyreme.kernel.constant"() {value = -3 : i64, dtype = i32} : () -> i32
        %23 = "polyreme.kernel.broadcast"(%22) {lanes = 1 : i64} : (i32) -> i32
        %24 = "polyreme.kernel.apply"(%21, %23) {fn = "sub"} : (i32, i32) -> i32
        %25 = "polyreme.kernel.apply"(%24) {fn = "cast", dtype = f32} : (i32) -> f32
        "polyreme.kernel.store"(%25, %7, %i_1) {streaming = false, operandSegmentSizes = array<i32: 1, 1, 1, 0>} : (f32, !polyreme.buffer<4xf32>, index) -> ()
        "polyreme.kernel.yield"() : () -> ()
      }) {step = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 0>} : (index, index) -> ()
      %26 = "polyreme.kernel.constant"() {value = 4 : i64, dtype = index} : () -> index
      %27 = "polyreme.kernel.apply"(%6, %26) {fn = "add"} : (index, index) -> index
      %28 = "polyreme.kernel.apply"(%27, %0) {fn = "min"} : (index, index) -> index
      "polyreme.kernel.for"(%6, %28) ({
      ^bb0(%i_2: index):
        %29 = "polyreme.kernel.constant"() {value = 3 : i64, dtype = index} : () -> index
        %30 = "polyreme.kernel.apply"(%i_2, %6) {fn = "sub"} : (index, index) -> index
        %31 = "polyreme.kernel.apply"(%29, %30) {fn = "sub"} : (index, index) -> index
        %32 = "polyreme.kernel.load"(%7, %31) {lanes = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 0>} : (!polyreme.buffer<4xf32>, index) -> f32
        "polyreme.kernel.store"(%32, %out, %i_2) {streaming = false, operandSegmentSizes = array<i32: 1, 1, 1, 0>} : (f32, !polyreme.buffer<4x2xf32>, index) -> ()
        "polyreme.kernel.yield"() : () -> ()
      }) {step = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 0>} : (index, index) -> ()
      "polyreme.kernel.yield"() : () -> ()
    }) {grain = 1 : i64} : (index) -> ()
    "func.return"() : () -> ()
  }) {arg_names = ["a0", "a1", "out"]} : () -> ()
  "func.func"() <{sym_name = "k2", function_type = (!polyreme.buffer<f32>, !polyreme.buffer<f32>, !polyreme.buffer<5x4xf32>) -> ()}> ({
  ^bb0(%a0: !polyreme.buffer<f32>, %a1: !polyreme.buffer<f32>, %out: !polyreme.buffer<5x4xf32>):
    %0 = "polyreme.kernel.size"() {value = 20 : i64} : () -> index
    %1 = "polyreme.kernel.constant"() {value = 0 : i64, dtype = index} : () -> index
    %2 = "polyreme.kernel.constant"() {value = 1 : i64, dtype = index} : () -> index
    %3 = "polyreme.kernel.apply"(%0, %2) {fn = "add"} : (index, index) -> index
    %4 = "polyreme.kernel.constant"() {value = 2 : i64, dtype = index} : () -> index
    %5 = "polyreme.kernel.apply"(%3, %4) {fn = "div"} : (index, index) -> index
    "polyreme.kernel.for"(%1, %5) ({
    ^bb0(%i: index):
      %6 = "polyreme.kernel.constant"() {value = 2 : i64, dtype = index} : () -> index
      %7 = "polyreme.kernel.apply"(%i, %6) {fn = "mul"} : (index, index) -> index
      %8 = "polyreme.kernel.apply"(%0, %7) {fn = "sub"} : (index, index) -> index
      %9 = "polyreme.kernel.lane_mask"(%8) {lanes = 2 : i64} : (index) -> vector<2xi1>
      %10 = "polyreme.kernel.constant"() {value = 1 : i64, dtype = index} : () -> index
      %11 = "polyreme.kernel.iota"() {lanes = 2 : i64} : () -> vector<2xindex>
      %12 = "polyreme.kernel.broadcast"(%7) {lanes = 2 : i64} : (index) -> vector<2xindex>
      %13 = "polyreme.kernel.apply"(%11, %12) {fn = "add"} : (vector<2xindex>, vector<2xindex>) -> vector<2xindex>
      %14 = "polyreme.kernel.broadcast"(%10) {lanes = 2 : i64} : (index) -> vector<2xindex>
      %15 = "polyreme.kernel.apply"(%13, %14) {fn = "mod"} : (vector<2xindex>, vector<2xindex>) -> vector<2xindex>
      %16 = "polyreme.kernel.gather"(%a1, %15, %9) {operandSegmentSizes = array<i32: 1, 1, 1>} : (!polyreme.buffer<f32>, vector<2xindex>, vector<2xi1>) -> vector<2xf32>
      %17 = "polyreme.kernel.apply"(%16) {fn = "tanh"} : (vector<2xf32>) -> vector<2xf32>
      %18 = "polyreme.kernel.apply"(%17) {fn = "cos"} : (vector<2xf32>) -> vector<2xf32>
      %19 = "polyreme.kernel.apply"(%18) {fn = "cos"} : (vector<2xf32>) -> vector<2xf32>
      "polyreme.kernel.store"(%19, %out, %7, %9) {streaming = false, operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (vector<2xf32>, !polyreme.buffer<5x4xf32>, index, vector<2xi1>) -> ()
      "polyreme.kernel.yield"() : () -> ()
    }) {step = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 0>} : (index, index) -> ()
    "func.return"() : () -> ()
  }) {arg_names = ["a0", "a1", "out"]} : () -> ()
}) : () -> ()

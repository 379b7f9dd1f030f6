"""What operators give, and what those made in loops compute: a line for each, ``rows: words``.

A line of ``RESULTS`` without a row of its own (``name`` or ``name@nd``) follows from the row's kind (`Help`).
"""

#: What element-wise rows compute, whose docstrings are made of their names.
ABOUT = """
add: The sum of two arrays, element by element.
elemwise_add: The sum of two arrays of one shape, element by element.
subtract: The difference of two arrays, element by element.
elemwise_sub: The difference of two arrays of one shape, element by element.
multiply: The product of two arrays, element by element.
elemwise_mul: The product of two arrays of one shape, element by element.
true_divide: The quotient of two arrays, element by element; np divides integers in float32, nd cuts them off.
elemwise_div: The quotient of two arrays of one shape, element by element; integers are cut off.
floor_divide: The largest whole number not above the quotient of two arrays, element by element.
mod: The remainder of a division, with the divisor's sign; by zero it is 0.
fmod: The remainder of a division, with the dividend's sign; by zero it is 0.
power: The first array to the power of the second, element by element; integers to a negative power are 0.
float_power: The first array to the power of the second, computed in floats.
maximum: The larger of two elements; NaN wins, and where both are equal the gradient goes to the left.
minimum: The smaller of two elements; NaN wins, and where both are equal the gradient goes to the left.
fmax: The larger of two elements; a number wins over NaN.
fmin: The smaller of two elements; a number wins over NaN.
hypot: The length of the hypotenuse, sqrt(x1 ** 2 + x2 ** 2), element by element.
arctan2: The angle of the point (x2, x1) in radians, from -pi to pi.
logaddexp: log(exp(x1) + exp(x2)), computed without overflow.
copysign: The first array's magnitudes with the second one's signs.
ldexp: x1 * 2 ** x2, element by element.
heaviside: 0 where the first array is negative, 1 where it is positive, the second array's number where it is 0.
lcm: The least common multiple of integers.
gcd: The greatest common divisor of integers.
bitwise_and: The bits that are set in both integers (of bools: whether both are true).
bitwise_or: The bits that are set in either integer (of bools: whether one is true).
bitwise_xor: The bits that are set in one of two integers only.
bitwise_left_shift: The integers' bits moved to the left by as many places as the second array says.
bitwise_right_shift: The integers' bits moved to the right by as many places as the second array says.
equal: Whether elements are equal.
not_equal: Whether elements differ.
less: Whether elements of the first array are smaller.
less_equal: Whether elements of the first array are smaller or equal.
greater: Whether elements of the first array are larger.
greater_equal: Whether elements of the first array are larger or equal.
logical_and: Whether both elements are not 0.
logical_or: Whether at least one element is not 0.
logical_xor: Whether exactly one of two elements is not 0.
negative: The elements with the other sign.
abs: The elements without their sign.
positive: The elements as they are, as a new array.
sign: -1, 0 or 1: the sign of each element.
square: Each element times itself.
reciprocal: 1 / x, element by element.
bitwise_not: The integers with all bits turned round (of bools: not).
logical_not: Whether elements are 0.
isnan: Whether elements are NaN.
isnan_: Whether elements are NaN, as 1 or 0.
isinf: Whether elements are infinite, of either sign.
isinf_: Whether elements are infinite, of either sign, as 1 or 0.
isfinite: Whether elements are neither infinite nor NaN.
isfinite_: Whether elements are neither infinite nor NaN, as 1 or 0.
isposinf: Whether elements are +inf.
isneginf: Whether elements are -inf.
signbit: Whether the sign bit is set, of -0.0 too.
spacing: The distance to the next larger float.
real: The real part, which of real numbers is the numbers.
sqrt: The square root; NaN of negative numbers.
cbrt: The cube root, of negative numbers too.
exp: e to the power of each element.
expm1: exp(x) - 1, exact near 0.
log: The natural logarithm; -inf of 0, NaN of negative numbers.
log2: The logarithm to the base 2.
log10: The logarithm to the base 10.
log1p: log(1 + x), exact near 0.
sin: The sine of angles in radians.
cos: The cosine of angles in radians.
tan: The tangent of angles in radians.
tanh: The hyperbolic tangent.
sinh: The hyperbolic sine.
cosh: The hyperbolic cosine.
arcsin: The angle in radians, from -pi/2 to pi/2, whose sine is given; NaN outside of -1 to 1.
arccos: The angle in radians, from 0 to pi, whose cosine is given; NaN outside of -1 to 1.
arctan: The angle in radians, from -pi/2 to pi/2, whose tangent is given.
arcsinh: The inverse of the hyperbolic sine.
arccosh: The inverse of the hyperbolic cosine; NaN below 1.
arctanh: The inverse of the hyperbolic tangent; NaN outside of -1 to 1.
degrees: Radians as degrees.
radians: Degrees as radians.
i0: The modified Bessel function of the first kind and order 0.
ceil: The smallest whole number not below each element.
floor: The largest whole number not above each element.
trunc: The elements without what follows the point.
fix: The elements rounded towards zero.
rint: The nearest whole number, halves to the even one.
rsqrt: 1 / sqrt(x), element by element.
rcbrt: 1 / cbrt(x), element by element.
modf: What follows the point, and the whole part, both with the element's sign.
frexp: Mantissa and exponent: x = mantissa * 2 ** exponent, with 0.5 <= abs(mantissa) < 1.
relu: The larger of each element and 0.
sigmoid: 1 / (1 + exp(-x)), element by element.
softsign: x / (1 + abs(x)), element by element.
log_sigmoid: The logarithm of the sigmoid, computed without overflow.
mish: x * tanh(log(1 + exp(x))) (Misra 2019).
erf: The error function.
erfinv: The inverse of the error function, for numbers between -1 and 1.
gammaln: The logarithm of the absolute value of the gamma function.
digamma: The derivative of the logarithm of the gamma function.
gamma: The gamma function.
sum: The sum of the elements, of all or along axes.
prod: The product of the elements, of all or along axes.
mean: The mean of the elements, of all or along axes.
max: The largest element, of all or along axes; NaN wins.
min: The smallest element, of all or along axes; NaN wins.
any: Whether any element is not 0, of all or along axes.
all: Whether all elements are not 0, of all or along axes.
ptp: The largest element less the smallest, of all or along axes.
nanmax: The largest element that is not NaN, of all or along axes.
nanmin: The smallest element that is not NaN, of all or along axes.
nansum: The sum of the elements that are not NaN, of all or along axes.
nanprod: The product of the elements that are not NaN, of all or along axes.
nanstd: The standard deviation of the elements that are not NaN, of all or along axes.
nanvar: The variance of the elements that are not NaN, of all or along axes.
std: The standard deviation of the elements, of all or along axes.
var: The variance of the elements, of all or along axes.
median: The median of the elements, of all or along axes.
nanmedian: The median of the elements that are not NaN, of all or along axes.
quantile: Quantiles of the elements, of all or along axes; ``q`` from 0 to 1.
nanquantile: Quantiles of the elements that are not NaN, of all or along axes; ``q`` from 0 to 1.
percentile: Percentiles of the elements, of all or along axes; ``q`` from 0 to 100.
nanpercentile: Percentiles of the elements that are not NaN, of all or along axes; ``q`` from 0 to 100.
argmax: The place of the largest element, counted through all or along an axis; of equal ones the first.
argmin: The place of the smallest element, counted through all or along an axis; of equal ones the first.
argmax@nd: The place of the largest element along an axis, as a float like the array's.
argmin@nd: The place of the smallest element along an axis, as a float like the array's.
nanargmax: The place of the largest element that is not NaN, counted through all or along an axis.
nanargmin: The place of the smallest element that is not NaN, counted through all or along an axis.
argmax_channel: The place of the largest element along axis 1.
atleast_1d: The arrays with at least one axis: numbers become vectors.
atleast_2d: The arrays with at least two axes: vectors become rows.
atleast_3d: The arrays with at least three axes.
hanning: The Hann window: (1 - cos(2 pi n / (M - 1))) / 2.
hamming: The Hamming window: 0.54 - 0.46 cos(2 pi n / (M - 1)).
blackman: The Blackman window: 0.42 - 0.5 cos(2 pi n / (M - 1)) + 0.08 cos(4 pi n / (M - 1)).
tril_indices: The indices of a lower triangle: of the rows, and of the columns.
triu_indices: The indices of an upper triangle: of the rows, and of the columns.
sgd_update: One step of stochastic gradient descent: weight - lr * (grad + wd * weight).
sgd_mom_update: One step of stochastic gradient descent with momentum.
mp_sgd_update: One step of stochastic gradient descent of a float16 weight, computed on its float32 copy.
mp_sgd_mom_update: One step of SGD with momentum of a float16 weight, computed on its float32 copy.
nag_mom_update: One step of Nesterov's accelerated gradient.
mp_nag_mom_update: One step of Nesterov's accelerated gradient of a float16 weight, computed on its float32 copy.
adam_update: One step of Adam (Kingma and Ba 2015), without the correction of the means' beginnings.
rmsprop_update: One step of RMSProp (Tieleman and Hinton 2012).
rmspropalex_update: One step of RMSProp in the centred form (Graves 2013).
ftrl_update: One step of FTRL-proximal (McMahan et al. 2013).
ftml_update: One step of FTML (Zheng and Kwok 2017).
signsgd_update: One step by the sign of the gradient (Bernstein et al. 2018).
signum_update: One step by the sign of the momentum (Bernstein et al. 2018).
"""

RESULTS = """
add subtract multiply power maximum minimum fmax fmin mod fmod floor_divide: of the shape to which both broadcast; the dtype that holds both (a float beside an integer gives the float's).
true_divide: of the shape to which both broadcast; floats keep their dtype, integers give float32.
float_power hypot arctan2 logaddexp copysign heaviside: of the shape to which both broadcast, of the floats' dtype.
ldexp: of the shape to which both broadcast, of the dtype of ``x1``.
lcm gcd bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift: of the shape to which both broadcast, of the integers' dtype.
equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor: of the shape to which both broadcast; bool.
equal@nd not_equal@nd less@nd less_equal@nd greater@nd greater_equal@nd logical_and@nd logical_or@nd logical_xor@nd: of the shape to which both broadcast: 1 or 0 in the dtype of both.
add@nd subtract@nd multiply@nd true_divide@nd mod@nd power@nd maximum@nd minimum@nd hypot@nd arctan2@nd: of the shape to which both broadcast, in the dtype of both (which must be one).
elemwise_add elemwise_sub elemwise_mul elemwise_div: of the shape and dtype of both.
logical_not isnan isinf isfinite isposinf isneginf signbit: of the input's shape; bool.
isnan_@nd isinf_@nd isfinite_@nd logical_not@nd: of the input's shape and dtype: 1 or 0.
sqrt cbrt exp expm1 log log2 log10 log1p sin cos tan tanh sinh cosh arcsin arccos arctan arcsinh arccosh arctanh degrees radians i0 spacing: of the input's shape; floats keep their dtype, integers give float32 (those of 8 bits and bools float16).
sum prod nansum nanprod: without the reduced axes (of length 1 with ``keepdims``), in ``dtype``; left out, that of the input.
mean: without the reduced axes (of length 1 with ``keepdims``), in ``dtype``; left out, float32.
any all: without the reduced axes (of length 1 with ``keepdims``); bool.
max min ptp nanmax nanmin: without the reduced axes (of length 1 with ``keepdims``), of the input's dtype.
std var nanstd nanvar: without the reduced axes (of length 1 with ``keepdims``), of ``dtype`` or the input's.
median nanmedian: without the reduced axes (of length 1 with ``keepdims``); floats.
quantile nanquantile percentile nanpercentile: the shape of ``q``, then what remains of the input's; floats.
sum@nd prod@nd mean@nd max@nd min@nd nansum@nd nanprod@nd: without the reduced axes (of length 1 with ``keepdims``); of everything shape (1,). The input's dtype.
argmax argmin nanargmax nanargmin: without the axis (of length 1 with ``keepdims``); int64.
argmax@nd argmin@nd argmax_channel: without the axis; the places in the input's dtype.
average: without the reduced axes, floats; with ``returned`` a pair: the mean, and the sum of weights in its shape.
moments: a pair, mean and variance, without the reduced axes (of length 1 with ``keepdims``).
cov corrcoef: a matrix with a row and a column for each variable; floats.
correlate convolve: a vector: of length len(a) + len(v) - 1 (full), max (same), or max - min + 1 (valid).
norm: without the reduced axes; of everything shape (1,).
cumsum cumprod nancumsum nancumprod: of the input's shape (a vector without ``axis``), in ``dtype`` or the input's.
diff: of the input's shape, on the axis shorter by ``n``.
ediff1d: a vector, shorter by one than the flattened input, and longer by what is added.
trapz: without the axis.
interp: of the shape of ``x``; floats.
polyval: of the shape of ``x``.
unwrap: of the input's shape and dtype.
around round@nd: of the input's shape and dtype.
nan_to_num clip copy round_ste sign_ste gradientmultiplier stop_gradient make_loss make_loss_layer kl_sparse quadratic: of the input's shape and dtype.
activation leaky_relu _rrelu smooth_l1 hard_sigmoid dropout: of the input's shape and dtype.
softmax log_softmax softmin masked_softmax masked_log_softmax: of the input's shape, in ``dtype`` or the input's.
softmax_activation softmax_output svm_output LinearRegressionOutput LogisticRegressionOutput MAERegressionOutput: of the shape and dtype of ``data``.
softmax_cross_entropy: of shape (1,).
ctc_loss: the loss of each sample, shape (N,).
add_n: of the arrays' shape and dtype.
cast amp_cast: of the input's shape, in ``dtype`` (amp_cast: floats only).
amp_multicast: a list: as many arrays as came, of their shapes and one dtype.
all_finite multi_all_finite: 1 or 0, shape (1,), float32.
multi_sum_sq: shape (number of arrays,), float32.
modf: a pair: what follows the point, and the whole part, both of the input's shape.
frexp: a pair of the input's shape: mantissas, and exponents.
divmod_: a pair of the shape to which both broadcast: quotient, and remainder.
sldwin_atten_score: shape (B, L, H, window).
sldwin_atten_context: shape (B, L, H, D).
sldwin_atten_mask_like: of the shape of ``score``.
sort msort partition: of the input's shape (a vector with ``axis=None``) and dtype.
argsort argpartition lexsort: of the input's shape (lexsort: without the axis of keys); int64.
argsort@nd: of the input's shape, in ``dtype``.
topk: with ``k`` elements on the axis: the values, or the indices in ``dtype``; with ``both`` a list of both; ``mask`` has the input's shape.
bilinear_resize: shape (N, C, new height, new width).
box_iou: the shape of ``lhs`` without its last axis, then that of ``rhs``.
box_nms: of the input's shape; boxes that were left out are -1.
box_decode: of the shape of ``data``: corners.
bipartite_matching: a pair: for each row its column, or -1, and for each column its row, or -1.
box_encode: a pair of shape (B, N, 4): the offsets, and 1 where they count.
zeros ones full: of ``shape``, in ``dtype`` (float32 if it is left out; np.full: the number's).
zeros_like ones_like full_like empty_like: of the input's shape, in ``dtype`` or the input's.
arange: a vector; float32 if ``dtype`` is left out.
arange_like: of the input's shape, or a vector as long as its axis.
linspace linspace_between logspace: ``num`` numbers; float32 if ``dtype`` is left out.
eye tri identity: shape (N, M), in ``dtype`` (float32 if it is left out).
tril triu: of the input's shape and dtype.
indices: shape (number of axes, *dimensions); int64.
hanning hamming blackman: a vector of length ``M``; float32 if ``dtype`` is left out.
tril_indices triu_indices: a pair of vectors, int64.
vander: shape (length of ``x``, N).
deformable_convolution modulated_deformable_convolution convolution deconvolution: shape (N, num_filter, *space), of the dtype of ``data``.
multibox_prior: the anchors' corners, shape (1, H * W * anchors, 4).
multibox_target: a list: offsets (B, N * 4), their mask (B, N * 4), and classes (B, N).
multibox_detection: shape (B, N, 6): class (-1: nothing), score and corners.
Proposal MultiProposal: shape (boxes, 5): image number and corners; with ``output_score`` a list with the scores (boxes, 1).
psroi_pooling deformable_psroi_pooling: shape (R, output_dim, pooled_size, pooled_size).
mrcnn_mask_target: a list: the masks and which classes count, both (B, N, num_classes, height, width).
rroi_align roi_align roi_pooling: shape (R, C, height, width) of ``pooled_size``.
image_to_tensor: shape (C, H, W), or (N, C, H, W); float32.
image_normalize image_flip_left_right image_flip_top_bottom image_random_flip_left_right image_random_flip_top_bottom: of the input's shape and dtype.
image_random_brightness image_random_contrast image_random_saturation image_random_hue image_random_color_jitter image_adjust_lighting image_random_lighting: of the input's shape and dtype.
image_crop image_resize image_random_crop image_random_resized_crop: shape (height, width, C), or (N, height, width, C), of the input's dtype.
take take@nd: the input's shape with that of ``indices`` in place of the axis.
batch_take: of the shape of ``indices``.
take_along_axis: of the shape of ``indices`` (broadcast), of the input's dtype.
pick: the input's shape without the axis (length 1 with ``keepdims``).
gather_nd: the shape of ``indices`` without its first axis, then what is left of the input's.
scatter_nd _backward_gather_nd: of ``shape``, of the dtype of ``data``.
index_add index_update index_copy fill_element_0index: of the shape and dtype of the first array.
one_hot: the input's shape and a last axis of length ``depth``, in ``dtype``.
where: of the shape to which all broadcast, of the dtype of ``x`` and ``y``.
slice_ slice_axis slice_like: the part, as a new array of the input's dtype.
_slice_assign _slice_assign_scalar: of the first array's shape and dtype.
unravel_index: shape (axes, *input's shape).
ravel_multi_index: the input's shape without its first axis.
searchsorted digitize: of the shape of the numbers that are looked for; int64.
isin: of the shape of ``element``; bool.
in1d: a vector as long as ``ar1`` has elements; bool.
isclose: of the shape to which both broadcast; bool.
allclose: without an axis; uint8.
dot: the shape of ``a`` without its last axis, then that of ``b`` without its second last one.
dot@nd: the shape of ``lhs`` without its last axis, then that of ``rhs`` without its first one.
matmul: shape (..., n, m) of (..., n, k) and (..., k, m).
batch_dot: shape (batch, n, m).
inner: the shape of ``a`` without its last axis, then that of ``b`` without its last one.
outer: shape (size of ``a``, size of ``b``).
vdot: a number, as an array without axes.
kron khatri_rao: the lengths multiplied, axis by axis (khatri_rao: the first axis).
tensordot: the axes of ``a`` that were not summed over, then those of ``b``.
cross: of the shape to which both broadcast.
trace la_sumlogdiag: without the two axes of the matrices.
linalg_trace: without the first two axes.
diag diagflat diagonal linalg_diagonal la_extractdiag la_makediag la_extracttrian la_maketrian: without the matrices' axes and with one for the diagonal (triangle), or the other way round.
vecdot: without the axis.
linalg_norm linalg_vector_norm linalg_matrix_norm: without the reduced axes (of length 1 with ``keepdims``); floats.
linalg_cholesky linalg_inv linalg_matrix_power la_potrf la_potri la_inverse: of the input's shape and dtype.
linalg_qr: a pair (Q, R): (..., m, k) and (..., k, n), k the smaller of m and n.
linalg_svd: three arrays (U, L, V): (..., m, m), (..., m) and (..., m, n) for m <= n.
linalg_svdvals: shape (..., min(m, n)), falling.
linalg_det linalg_slogdet la_det la_slogdet: shape (...); of slogdet a pair: the signs, and the logarithms of absolute values.
linalg_solve: of the shape of ``b``.
linalg_tensorinv: the axes from ``ind`` on, then those before it.
linalg_tensorsolve: of the shape of the axes that were solved for.
linalg_pinv: shape (..., n, m) of (..., m, n).
linalg_eigh: a pair: eigenvalues (..., n), rising, and eigenvectors as columns (..., n, n).
linalg_eigvalsh: shape (..., n), rising.
linalg_cond linalg_matrix_rank: shape (...), that is without the matrices' axes.
linalg_multi_dot: the first array's rows by the last one's columns.
la_gemm la_gemm2 la_trsm la_trmm la_syrk: the matrices' product, shape (..., rows, columns).
la_gelqf: a list (Q, L): (..., m, n) and (..., m, m).
la_syevd: a list (U, L): eigenvectors as rows (..., n, n), and eigenvalues (..., n).
fully_connected: shape (N, num_hidden), or (..., num_hidden) with ``flatten=False``.
pooling adaptive_avg_pooling: shape (N, C, *space), of the input's dtype.
batch_norm batch_norm_with_relu sync_batch_norm: of the data's shape and dtype; with ``output_mean_var`` a list with mean and variance.
layer_norm group_norm: of the data's shape and dtype; with ``output_mean_var`` a list with mean and standard deviation.
instance_norm l2_normalization lrn div_sqrt_dim: of the input's shape and dtype.
embedding: the shape of ``data``, then output_dim; the weight's dtype.
batch_flatten: shape (N, product of the other lengths).
up_sampling: shape (N, C, H * scale, W * scale).
im2col: shape (N, C * prod(kernel), windows).
col2im: shape (N, C, *output_size).
interleaved_matmul_selfatt_qk interleaved_matmul_encdec_qk: shape (N * heads, Tq, Tk).
interleaved_matmul_selfatt_valatt interleaved_matmul_encdec_valatt: shape (T, N, heads * d).
multi_lars: the rates, shape (number of weights,).
reset_arrays: nothing.
lamb_update_phase1 mp_lamb_update_phase1: the direction, in the weight's shape.
random_pdf_uniform random_pdf_normal random_pdf_gamma random_pdf_exponential random_pdf_poisson random_pdf_negative_binomial random_pdf_generalized_negative_binomial: of the shape of ``sample``.
random_pdf_dirichlet: the shape of ``sample`` without its last axis.
quantize quantize_v2 requantize: a list: the integers in the input's shape, and the range's bounds, each (1,).
dequantize: of the input's shape; float32.
quantized_fully_connected quantized_conv quantized_pooling quantized_act quantized_flatten quantized_transpose quantized_reshape quantized_concat quantized_elemwise_add quantized_embedding quantized_batch_norm: a list: the integers, and the range's bounds, each (1,).
quantized_elemwise_mul: a list: the integers, and the range's bounds, each (1,); one float32 array with ``enable_float_output``.
intgemm_maxabsolute: shape (1,).
intgemm_prepare_data intgemm_prepare_weight: of the input's shape; int8.
intgemm_take_weight: shape (number of indices, columns); int8.
intgemm_fully_connected: shape (N, num_hidden), in ``out_type``.
multivariate_normal: the shape ``size``, then (d,).
randint _random_randint: of the given shape; integers (int64 of np, int32 of nd, unless ``dtype`` is given).
random_bernoulli: of the shape ``size``, or of the parameters'.
uniform_n normal_n: ``batch_shape``, then the shape to which the parameters broadcast.
categorical: the shape of ``data`` without its last axis, then ``shape``; in ``dtype``; with ``get_prob`` a list with the logarithms.
shuffle: of the input's shape and dtype.
rnn: shape (T, N, directions * state_size); with ``state_outputs`` a list with the states at the end.
rnn_param_concat: one vector.
sequence_mask sequence_reverse: of the input's shape and dtype.
sequence_last: the input's shape without the axis of the steps.
reshape reshape@npx reshape@nd reshape_like resize: the elements in the new shape, of the input's dtype.
ravel: a vector of all elements.
expand_dims: the input's shape with a 1 at ``axis``.
squeeze: the input's shape without these axes.
transpose swapaxes moveaxis rollaxis matrix_transpose: the input's elements with the axes in their new order.
flip flipud fliplr roll: of the input's shape and dtype.
rot90: the two axes exchanged if ``k`` is odd.
broadcast_to broadcast_like broadcast_axis: of the new shape, of the input's dtype.
tile: the lengths multiplied by ``reps``.
repeat: longer on the axis; a vector without ``axis``.
concatenate concat@nd concatenate@nd vstack hstack dstack column_stack append: the arrays' lengths added on the axis; the dtype that holds all.
stack: the arrays' shape with their number as a new length at ``axis``.
split array_split hsplit vsplit dsplit slice_channel split_v2: a list of arrays (nd: one array where there is one part).
atleast_1d atleast_2d atleast_3d: an array, or a list where several came.
broadcast_arrays meshgrid: a list of arrays of one shape.
pad: longer by the widths; of the input's dtype.
shape_array: shape (number of axes,); int64.
size_array: shape (1,); int64.
depth_to_space: shape (N, C / b ** 2, H * b, W * b).
space_to_depth: shape (N, C * b ** 2, H / b, W / b).
index_array: shape (*input's shape, axes); int64.
crop: shape (N, C, height, width).
fft: shape (..., 2 * d); float32.
ifft: shape (..., d); float32.
count_sketch: shape (n, out_dim).
correlation: shape (N, displacements, h, w).
hawkesll: a list: the log likelihoods (N,), and the states at the end (N, K).
cast_storage: an array of that storage type.
getnnz: shape (1,), or the number of rows; int64.
grid_generator: shape (N, 2, height, width): x and y from -1 to 1.
bilinear_sampler spatial_transformer: shape (N, C, height, width) of the grid.
dynamic_reshape: the elements in the new shape.
edge_id dgl_adjacency: the numbers of edges, or a matrix of 1.
boolean_mask: the rows that were chosen.
constraint_check: True, shape (); raises at once where an element is false.
"""

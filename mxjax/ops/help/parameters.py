"""What the parameters of operators mean: one line for each name, and lines of their own where rows mean something else.

A line is ``name type: words``, or ``row.name type: words`` for one row (in all of its forms). Types are those of `TYPES`;
that None is allowed, and the default, are read from the row.
"""

PARAMETERS = """
A array: The matrices, in the last two axes.
B array: The second matrices, in the last two axes.
C array: The matrices that are added.
M int: The number of columns; as many as rows if it is left out.
N int: The number of rows.
UPLO str: The triangle that is read, "L" or "U", in the words of MXNet 1 and NumPy; see ``upper``.
a array: The input.
a_max number: The upper bound; none without it.
a_min number: The lower bound; none without it.
act_type str: Which activation function: one of those named above.
adj ints: How much longer than the smallest possible the output is, for each spatial axis.
align_corners bool: Whether the corners' pixels keep their place, or the borders of the image.
aligned bool: Whether the boxes are moved by half a pixel, so that they lie between the pixels' centres.
alpha float: The factor before the product.
alpha_std float: The standard deviation of the noise's strengths.
already_quantized bool: Whether the weights are int8 already.
always_copy bool: Taken for compatibility: the result is always a new array.
anchor array: The anchors' corner boxes, shape (1, N, 4).
anchors array: The anchors' corner boxes, shape (1, N, 4) or (B, N, 4).
append array: What follows the input along the axis before differences are taken.
ar1 array: The elements that are looked for.
ar2 array: The elements among which they are looked for.
area floats: The smallest and largest share of the image's area that the part may have.
args arrays: The arrays, one after the other or as one list.
arr array: The input.
array array: The input.
arrays arrays: The arrays, as a list or tuple (mx.nd takes them one after the other, too).
ary array: The input.
arys arrays: The arrays, one after the other.
assume_unique bool: Taken for compatibility: the answer is the same.
atol float: The difference that is always allowed.
attention array: The attention's weights, shape (N * heads, T, T).
aweights array: A weight for each observation.
axes ints: The axes, in the order in which they are wanted.
axis int: The axis; negative numbers count from the last one.
axis1 int: The first of the two axes.
axis2 int: The second of the two axes.
axisa int: The axis of ``a`` along which its vectors lie.
axisb int: The axis of ``b`` along which its vectors lie.
axisc int: The axis of the result along which the vectors lie.
b array: The second input.
background_id int: The class that is the background and is left out; -1: none.
base float: The base of the powers.
batch_shape ints: How many draws are made for each element of the parameters: the result's leading axes.
bbox_pred array: The predicted offsets of boxes, shape (N, 4 * anchors, H, W).
begin ints: Where the part begins; None in a tuple: at the start of that axis.
beta float: The factor before what is added.
beta1 float: The decay of the mean of gradients.
beta2 float: The decay of the mean of squared gradients.
bias array: The bias, shape (units,); left out with ``no_bias=True``.
bias_correction bool: Whether the means are divided by ``1 - beta ** t``.
bidirectional bool: Whether a second set of layers reads the sequences backwards.
bins array: The edges of the bins, in order.
blank_label str: Whether the blank is the ``"first"`` class or the ``"last"`` one.
block_size int: The side of the squares that are moved between channels and pixels.
brightness float: The largest share by which brightness changes.
c float: The constant term.
cast_narrow bool: Whether the narrowest dtype is taken instead of the widest.
center_crop bool: Whether the window lies in the middle.
check_valid any: Taken for compatibility, and not used.
clip bool: Whether boxes are cut off at the image's borders.
clip_grad float: Gradients are cut off at this absolute value; negative: never.
clip_gradient float: Gradients are cut off at this absolute value, after ``rescale_grad``; negative: never.
clip_weights float: New weights are cut off at this absolute value; negative: never.
cls_pred array: The predicted scores of classes, shape (B, classes + 1, N).
cls_prob array: The probabilities of classes, shape (B, classes + 1, N).
cls_targets array: The class of each region from 0, without the background, shape (B, N).
compute_size int: Taken for compatibility, and not used.
condition array: Where it is not 0, elements come from ``x``.
constant_value float: The number that is added around in the mode ``constant``.
constant_values number: The numbers that are added around in the mode ``constant``.
contrast float: The largest share by which contrast changes.
coord_start int: Where in a row of ``data`` the box's four numbers begin.
copy bool: Whether the input is left as it is; False writes into it.
correction float: What is taken from the number of elements before the division (Bessel's correction: 1).
count_include_pad bool: Whether averages count the padding's zeros; True if it is left out.
cov array: The covariance matrix, shape (d, d), symmetric and positive semi-definite.
ctx device: The device of the result.
cudnn_off bool: Taken for compatibility, and not used.
cudnn_tune any: Taken for compatibility, and not used.
d array: A state of the optimizer, in the weight's shape; changed in place.
data array: The input.
data1 array: The first images, shape (N, C, H, W).
data2 array: The second images, in the shape of the first.
data_lengths array: The valid steps of each sample, shape (N,); read with ``use_data_lengths=True``.
ddof float: What is taken from the number of elements before the division.
decimals int: How many places are kept; negative: tens, hundreds, ...
delta array: A state of the optimizer, in the weight's shape; changed in place.
deterministic bool: Accepted from MXNet 1: every sum of gradients is.
depth int: The length of the new axis: how many classes there are.
descending bool: Whether the largest element comes first.
destination ints: Where these axes go.
df number: The degrees of freedom, positive.
dfden number: The denominator's degrees of freedom, positive.
dfnum number: The numerator's degrees of freedom, positive.
dilate ints: The distance of the kernel's taps on each spatial axis; 1 if it is left out.
dilation array: The distance of a window's places for each head, shape (H,), int32.
dim int: The axis along which arrays are joined.
dim1 int: The first of the two axes.
dim2 int: The second of the two axes.
dimensions ints: The lengths of the grid's axes.
discont number: The smallest jump that is mended; half a period if it is left out.
dtype dtype: The dtype of the result.
dx float: The distance of the points where ``x`` is not given.
element array: The elements that are looked for.
enable_float_output bool: Whether the result is float32.
end ints: Where the part ends, which is not in it; None in a tuple: at the end of that axis.
end_values number: The numbers that a ramp ends with; not supported.
endpoint bool: Whether the last number is ``stop``.
eps float: Added to the variance before its root, against a division by zero.
epsilon float: Added to a denominator, against a division by zero.
equal_nan bool: Whether NaN equals NaN.
eta float: The trust coefficient of LARS.
exclude bool: Whether all axes but those given are meant.
feature_stride int: How many pixels of the image one pixel of the features stands for.
fill_value number: The number.
fix_gamma bool: Whether gamma counts as 1, with a gradient of 0.
flatten bool: Whether (N, ...) is flattened to (N, rest), or only the last axis is transformed.
force_suppress bool: Whether boxes of other classes count as overlapping, too.
format str: How boxes are given: ``"corner"`` (x0, y0, x1, y1) or ``"center"`` (x, y, width, height).
forward_stype str: The storage type of the result, where arrays are sparse.
fp array: The values at ``xp``.
fweights array: How often each observation counts.
g array: A state of the optimizer, or the direction of the step, in the weight's shape.
gamma array: The scale, one number for each channel.
get_prob bool: Whether the logarithms of the outcomes' probabilities are given, too.
global_pool bool: Whether one window takes in the whole image.
grad array: The gradient, in the weight's shape.
grad_scale float: A factor of the gradient.
grads_sum_sq array: The sum of squares of each gradient, shape (number of weights,).
grid array: Where to read: (N, 2, H, W), x and y from -1 to 1.
group_size int: How many cells a region has on each side in the channels; ``pooled_size`` if it is 0.
gt_masks array: The objects' masks in the image's size, shape (B, M, H, W).
h array: The places to which columns are added, shape (1, d), from 0 to below ``out_dim``.
h_w ints: The height and width of the window.
heads int: The number of attention's heads.
height int: The height in pixels.
hermitian bool: Whether matrices are symmetric, which is quicker.
high number: The upper end, which is never drawn.
history array: The sums of squared gradients; changed in place.
hue float: The largest share of half a colour circle by which hues turn.
id_index int: Where in a row of ``data`` the class is; -1: all are of one class.
ignore_label float: Labels of this number do not count.
im2col_step int: Taken for compatibility, and not used.
im_info array: The height, width and scale of each image, shape (N, 3).
in_format str: How boxes are given: ``"corner"`` (x0, y0, x1, y1) or ``"center"`` (x, y, width, height).
increasing bool: Whether powers rise from left to right.
ind array: The places: ``ind[k]`` are the indices on axis k; shape (axes, places).
index array: Which element is picked, one index for each place; of the input's shape without ``axis``.
index_vector array: Which rows are replaced, shape (rows,).
indexing str: ``"xy"`` (the first vector runs along axis 1) or ``"ij"``.
indices array: The numbers of the elements.
indices_or_sections any: An integer: that many parts; a tuple: the places where parts begin.
infer_range bool: Taken for compatibility, and not used.
init_output bool: Whether the output begins as 1; False keeps an earlier verdict.
initial number: Not supported, as in MXNet.
input_dim int: The number of rows of the weight.
interp int: 0 nearest, 1 bilinear, 2 area, 3 cubic, 4 Lanczos (OpenCV's numbers).
interpolation str: The older name of ``method``.
invert bool: Whether the answer is turned round.
iou_loss bool: Whether offsets are of corners, not of centre and size.
is_ascend bool: Whether the smallest come first.
is_int bool: Taken for compatibility, and not used.
is_log bool: Whether the logarithm is given.
is_multiply bool: Whether patches are compared by products, or by absolute differences.
k int: Which diagonal: 0 the main one, positive above it, negative below.
keep_highest bool: Whether the first length is kept.
keep_ratio bool: Whether the image keeps its shape and ``size`` is its shorter side.
keepdims bool: Whether reduced axes stay, with length 1.
kernel ints: The window's length on each spatial axis.
kernel_size int: The side of the patches that are compared, odd.
key str: Taken for compatibility, and not used.
keys array: The keys that are sorted by: (keys, ...), the last one first.
keys_values array: Keys and values side by side, shape (Tk, N, heads * 2 * d).
kind str: The sorting method of NumPy; all give the same here.
knorm float: The constant added to the sum of squares.
kth ints: Which elements come to their sorted places.
label array: What is to be predicted.
label_lengths array: The length of each label, shape (N,); read with ``use_label_lengths=True``.
lags array: The times between events, shape (N, T).
lam number: The rate, positive: the mean (of the Poisson distribution), or its inverse (of the exponential one).
lamda1 float: The strength of the L1 penalty.
layout str: The order of axes: ``"NCW"``, ``"NCHW"`` or ``"NCDHW"`` if it is left out, or with channels last.
lazy_update bool: Whether rows without a gradient stay as they are, where the gradient is row_sparse.
lda array: The background rates, shape (N, K).
left number: The answer left of all points; the first value if it is left out.
length array: How many elements count along the axis, with ``use_length=True``.
lhs array: The left operand.
lhs_axes ints: Which axes of ``lhs`` are repeated.
lhs_begin int: The first axis of ``lhs`` that is reshaped.
lhs_end int: The axis of ``lhs`` that is no longer reshaped.
lhs_max array: The upper bound of ``lhs``, shape (1,).
lhs_min array: The lower bound of ``lhs``, shape (1,).
like array: Images whose size is taken, in the mode ``"like"``.
loc number: The mean of the distribution.
loc_pred array: The predicted offsets of boxes, shape (B, N * 4).
logit number: The logarithm of the odds, instead of ``prob``.
low number: The lower end.
lower bool: Whether the lower triangle is meant, or the upper one.
lower_bound float: The smallest value.
lr float: The learning rate.
lrs floats: The learning rates, one for each weight.
lstm_state_clip_max float: The upper bound of the LSTM's cell state.
lstm_state_clip_min float: The lower bound of the LSTM's cell state.
lstm_state_clip_nan bool: Whether NaNs in the cell state become the bound.
m array: The input.
margin float: The margin of the hinge loss.
marks array: The kinds of events, shape (N, T), int32.
mask array: True (or 1) where elements count; broadcasts against the input.
mask_size ints: Height and width of the masks that are learnt.
matches array: For each anchor the number of its true box, shape (B, N).
max_bias array: The upper bound of the bias's range, shape (1,).
max_calib_range float: The upper bound of the range that was found by calibration.
max_data array: The upper bound of the data's range, shape (1,).
max_displacement int: How far away patches are looked for, in pixels.
max_factor float: The largest factor.
max_range array: The upper bound of the range, shape (1,).
max_time array: The end of the observed time, shape (N,).
max_trial int: How often a part is drawn before the middle of the image is taken.
max_weight array: The upper bound of the weight's range, shape (1,).
maxabs array: The absolute value that becomes 127, shape (1,).
mean array: The mean of gradients, in the weight's shape; changed in place.
means floats: What is taken from each offset.
method str: How to choose between two elements: ``linear``, ``lower``, ``higher``, ``midpoint``, ``nearest``.
mhs array: The numbers that are written, shape (N,).
min_bias array: The lower bound of the bias's range, shape (1,).
min_calib_range float: The lower bound of the range that was found by calibration.
min_data array: The lower bound of the data's range, shape (1,).
min_factor float: The smallest factor.
min_range array: The lower bound of the range, shape (1,).
min_weight array: The lower bound of the weight's range, shape (1,).
minimum_negative_samples int: How many negative anchors count at least.
mode str: Which variant: one of those named above.
mom array: The momentum, in the weight's shape; changed in place.
momentum float: How much of the former value is kept.
moving_mean array: The running mean of each channel, shape (C,); updated in training.
moving_var array: The running variance of each channel, shape (C,); updated in training.
mu number: The mean.
multi_input_mode str: Whether several inputs are joined (``"concat"``) or added (``"sum"``).
multi_output bool: Whether classes lie on axis 1, with a label for each further place.
n int: How often.
nan number: What becomes of NaN.
ndev int: Taken for compatibility, and not used.
neginf number: What becomes of -inf; the dtype's smallest number if it is left out.
negative_mining_ratio float: How many negative anchors count for each positive one; -1: all.
negative_mining_thresh float: Anchors that overlap more than this are no hard negatives.
new_shape ints: The shape of the result.
new_tensor array: The rows that come in, shape (rows, ...).
newshape ints: The shape of the result; one length may be -1 and is inferred.
nms_threshold float: Boxes that overlap a better one of their class by more are left out.
nms_topk int: How many boxes are kept before overlapping ones are looked for; -1: all.
no_bias bool: Whether there is no bias.
no_trans bool: Whether offsets are left out.
normalization str: By what losses are divided: ``"null"`` (nothing), ``"batch"`` or ``"valid"``.
normalize bool: Taken for compatibility.
nsize int: How many neighbouring channels count, odd.
num int: How many numbers.
num_args int: The number of arrays; it is counted if left out.
num_arrays int: The number of arrays.
num_classes int: How many classes there are, without the background.
num_deformable_group int: In how many groups of channels offsets are their own.
num_filter int: The number of output channels.
num_group int: In how many groups channels are computed apart.
num_groups int: The number of groups; it divides the channels.
num_hidden int: The number of outputs.
num_layers int: The number of layers, one upon the other.
num_outputs int: The number of parts.
num_rois int: How many regions each image has, N.
num_weights int: The number of weights.
off_value float: The number elsewhere.
offset int: Which diagonal: 0 the main one, positive above it, negative below.
offsets floats: Where in a cell the centre lies: (y, x).
old_tensor array: The array whose rows are replaced.
on_value float: The number at the place that is given.
ord any: The order of the norm; by default the root of the sum of squares.
order str: Taken for compatibility: ``"C"``, the order of rows, is the only one.
out_dim int: The length of the sketch.
out_dtype dtype: The dtype of the result.
out_format str: How boxes are given back: ``"corner"`` or ``"center"``.
out_grad bool: Whether the gradient is multiplied by the head gradient.
out_type str: The dtype of the result.
output_dim int: The number of output channels, or the length of each row of the weight.
output_mean_var bool: Whether mean and variance are given, too.
output_score bool: Whether the scores are given, too.
output_size ints: The height and width of the result.
overlap_thresh float: Boxes that overlap a better one by more than this are left out.
overlap_threshold float: Anchors that overlap a true box by more than this are positive.
overwrite_input bool: Taken for compatibility: the input is never overwritten.
p float: The probability.
p_value int: The order of the norm with ``pool_type="lp"``: 1, 2 or 3.
pad ints: How many zeros are added at both ends of each spatial axis; 0 if it is left out.
pad_size int: How many zeros are added around the images.
pad_width any: How many elements are added before and after each axis.
parameters array: All weights and biases as one vector, in MXNet's order.
part_size int: The size of the offsets' map; ``pooled_size`` if it is 0.
penalty float: The strength of the penalty.
period float: The length of a period.
pool_type str: ``"max"``, ``"avg"``, ``"sum"`` or ``"lp"``.
pooled_size ints: How many cells a region has: (height, width), or one number for both.
pooling_convention str: ``"valid"`` leaves out windows that do not fit, ``"full"`` takes them in, ``"same"`` keeps the size.
position_sensitive bool: Whether each cell reads channels of its own.
posinf number: What becomes of +inf; the dtype's largest number if it is left out.
prepend array: What comes before the input along the axis before differences are taken.
preserve_shape bool: Whether the softmax is over the last axis, and not over all but the first.
prob number: The probability of 1.
processing_batch_size int: Taken for compatibility, and not used.
projection_size int: The length of the LSTM's projected state; none if it is left out.
prototype array: The array whose shape and dtype are taken.
q array: Which quantiles: from 0 to 1 (percentiles: from 0 to 100).
queries array: The queries, shape (Tq, N, heads * d).
queries_keys_values array: Queries, keys and values side by side, shape (T, N, heads * 3 * d).
query array: The queries, shape (B, L, H, D).
r1 array: The norm of the weight, shape (1,).
r2 array: The norm of the direction, shape (1,).
ratio floats: The smallest and largest ratio of width to height.
ratios floats: The ratios of width to height.
rcond number: Singular values below this share of the largest one count as 0.
reflect_type str: Only ``"even"``.
refs array: The true boxes, shape (B, M, 4).
regularization_coefficient float: The strength of the regularisation.
repeat int: How often each number comes.
repeats ints: How often each element comes: one number, or one for each along the axis.
reps ints: How often the array comes along each axis.
rescale_grad float: A factor of the gradient, such as 1 / batch size.
ret_typ str: ``"value"``, ``"indices"``, ``"both"`` or ``"mask"`` (1 at the elements chosen).
returned bool: Whether the sums of weights are given, too.
reverse bool: Whether the codes are read from the right.
rho float: The decay of the mean of squared gradients.
rhs array: The right operand.
rhs_axes ints: To which axes of ``rhs`` they are repeated.
rhs_begin int: The first axis of ``rhs`` that is taken.
rhs_end int: The axis of ``rhs`` that is no longer taken.
rhs_max array: The upper bound of ``rhs``, shape (1,).
rhs_min array: The lower bound of ``rhs``, shape (1,).
right bool: Whether a bin includes its right edge, and not its left one.
rightside bool: Whether the triangular matrix stands on the right.
rois array: The regions: rows of image number and corners, shape (R, 5).
rowvar bool: Whether rows are variables and columns observations, or the other way round.
rpn_min_size int: Boxes smaller than this, in pixels, are left out.
rpn_post_nms_top_n int: How many boxes are given for an image.
rpn_pre_nms_top_n int: How many boxes are kept before overlapping ones are left out.
rtol number: The difference that is allowed for each unit of size.
running_mean array: The running mean of each channel, shape (C,); updated in training.
running_var array: The running variance of each channel, shape (C,); updated in training.
s array: The signs, 1 or -1, shape (1, d).
sample array: The draws whose probability is asked: the parameters' shape and further axes.
sample_per_part int: How many samples a cell takes on each side.
sample_ratio int: How many samples a cell takes on each side; -1: as many as fit its size.
sample_type str: ``"nearest"`` or ``"bilinear"``.
sampler_type str: Only ``"bilinear"``.
samples array: 1 for positive anchors, -1 for negative ones, 0 for others, shape (B, N).
sampling_ratio int: How many samples a cell takes on each side; -1: as many as fit its size.
saturation float: The largest share by which saturation changes.
scalar float: The number.
scale number: The scale of the distribution, not negative (its standard deviation, where it is normal).
scale_height float: The factor of the height, in place of ``height``.
scale_width float: The factor of the width, in place of ``width``.
scales floats: The sizes of anchors, in strides.
scaling array: The factor of the products.
score array: The scores, shape (B, L, H, window).
score_index int: Where in a row of ``data`` the score is.
seq arrays: The arrays, as a list or tuple.
sequence_length array: The length of each sequence, shape (N,); read with ``use_sequence_length=True``.
shape ints: The shape of the result.
shape_like array: The array whose lengths are taken.
shift ints: By how many places elements move.
side str: Where equal elements go: ``"left"`` of them or ``"right"``.
sigma number: The standard deviation, not negative.
size ints: The shape of the result; that of the parameters if it is left out.
sizes floats: The anchors' sizes, as shares of the image.
slope float: The slope for negative numbers.
smooth_alpha float: The share of label smoothing.
sorter array: The order that sorts ``a``.
source ints: Which axes are moved.
sparse bool: Whether the matrices keep length 1 where they do not change.
sparse_grad bool: Whether the weight's gradient is row_sparse.
sparseness_target float: The mean activation that is wanted, between 0 and 1.
spatial_scale float: The size of the features over that of the image.
squeeze_axis bool: Whether the axis is dropped where parts have length 1 on it.
stable bool: Taken for compatibility: sorting is always stable.
start number: The first number; with one argument 0, and this is ``stop``.
stat_length ints: Not supported: statistics are of the whole axis.
state array: The state at the start.
state_cell array: The LSTM's cell state at the start, in the shape of ``state``.
state_outputs bool: Whether the states at the end are given, too.
state_size int: The length of the hidden state.
std any: The standard deviation of each channel: a number or a tuple.
std0 float: The factor of the first offset.
std1 float: The factor of the second offset.
std2 float: The factor of the third offset.
std3 float: The factor of the fourth offset.
stds floats: By what each offset is divided.
step any: The distance of one number, or element, to the next.
steps floats: The distance of anchors as a share of the image, (y, x); -1: that of the features' pixels.
stop number: The end, which is not among the numbers (linspace and logspace: the last number).
stride ints: The distance of windows on each spatial axis; 1 if it is left out.
stride1 int: The distance of the patches of the first images.
stride2 int: The distance of the patches of the second images.
stype str: The storage type: ``"default"``, ``"row_sparse"`` or ``"csr"``.
subok bool: Taken for compatibility, and not used.
symmetric bool: Whether windows reach to both sides, or only to the left.
t int: The number of the step, from 1.
target_shape ints: The spatial shape of the result, in place of ``pad`` and ``adj``.
temperature float: By what the input is divided first.
test_elements array: The elements among which they are looked for.
threshold float: Where the function changes.
to_begin array: Numbers that come before the differences.
to_end array: Numbers that follow the differences.
tol float: Taken for compatibility, and not used.
topk int: How many boxes of each sample count; -1: all.
trans array: The offsets of cells, shape (R, 2 * classes, part_size, part_size).
trans_std float: The factor of the offsets.
transform_type str: ``"affine"`` (six numbers for each image) or ``"warp"`` (a flow, (N, 2, H, W)).
transpose bool: Whether the first matrix is transposed.
transpose_a bool: Whether the first operand is transposed (its last two axes).
transpose_b bool: Whether the second operand is transposed (its last two axes).
tup arrays: The arrays, as a list or tuple.
upper bool: Whether the upper triangle is meant, or the lower one.
upper_bound float: The largest value.
use_data_lengths bool: Whether ``data_lengths`` is given.
use_global_stats bool: Whether the running statistics are used in training, too.
use_ignore bool: Whether ``ignore_label`` counts.
use_label_lengths bool: Whether ``label_lengths`` is given.
use_length bool: Whether ``length`` is given.
use_linear bool: Whether the loss is the hinge loss, or its square.
use_sequence_length bool: Whether ``sequence_length`` is given.
v array: The second vector.
val array: The numbers, in the shape of the places.
valid_length array: The valid length of each sample, shape (N,).
valid_thresh float: Only what is above this number counts.
value array: The values, shape (B, L, H, D).
values array: What is added at the end.
var array: The mean of squared gradients, in the weight's shape; changed in place.
variances floats: By what the four offsets are divided.
w int: How far a window reaches to one side.
wd float: The weight decay: this share of the weight is added to the gradient.
wd_lh float: The weight decay that does not go through the momentum.
wds floats: The weight decays, one for each weight.
weight array: The weight.
weight32 array: The float32 copy of the weight; changed in place.
weights array: A weight for each element, of the input's shape or that of the axis.
weights_sum_sq array: The sum of squares of each weight, shape (number of weights,).
where array: Not supported, as in MXNet.
width int: The width in pixels.
workspace int: Taken for compatibility, and not used.
x array: The input.
x1 array: The first operand, an array or a number.
x2 array: The second operand, an array or a number, which broadcasts with the first.
xi arrays: The vectors of coordinates, one after the other.
xp array: Where the points are, in rising order.
xrange floats: Where the part may begin from left to right, as shares of the room there is.
y array: The second input.
yrange floats: Where the part may begin from top to bottom, as shares of the room there is.
z array: A state of the optimizer, in the weight's shape; changed in place.

device device: The device of the result; the current one if it is left out.
out array: An array of the result's shape and dtype into which it is written, and which is given back.
name str: The name of the symbol; one is made if it is left out.
attr any: A dictionary of attributes of the symbol.

sum,prod,mean,max,min,any,all,ptp,nanmax,nanmin,nansum,nanprod,std,var,nanstd,nanvar.axis axes: The axis or axes along which elements are taken together; negative ones count from the last, None: all elements.
average,median,nanmedian,quantile,nanquantile,percentile,nanpercentile.axis axes: The axis or axes along which elements are taken together; None: all elements.
norm,linalg_norm,linalg_vector_norm,linalg_matrix_norm.axis axes: The axis or axes of the vectors (two of matrices); None: all elements.
squeeze.axis axes: The axis or axes of length 1 that are dropped; None: all of them.
flip.axis axes: The axis or axes that are reversed; None: all.
expand_dims.axis axes: Where in the result's shape the new axis (or axes) stands.
roll.axis axes: The axis or axes; None: as if all elements stood in one row.
argmax,argmin,nanargmax,nanargmin.axis int: The axis along which places are counted; None: through all elements.
cumsum,cumprod,nancumsum,nancumprod.axis int: The axis along which numbers run; None: all elements in one row.
sort,argsort,repeat,take,append.axis int: The axis; negative ones count from the last, None: as if all elements stood in one row.
concatenate.axis int: The axis along which arrays are joined; None: all elements in one row.
stack.axis int: Where in the result's shape the new axis stands.
softmax,log_softmax,softmin,masked_softmax,masked_log_softmax.axis int: The axis along which numbers add up to 1; negative ones count from the last.
identity.n int: The number of rows and columns.
all.a array: The input; what is not 0 counts as true.
any.a array: The input; what is not 0 counts as true.
arange.step number: The distance of one number to the next, not 0.
arange_like.axis int: The axis whose length counts; all elements are counted without it.
argsort.is_ascend bool: Whether the smallest comes first.
average.weights array: A weight for each element, of the input's shape or that of the axis; all 1 if left out.
batch_norm.axis int: The axis of the channels.
batch_norm.beta array: What is added, shape (C,).
batch_norm.gamma array: The scale, shape (C,).
batch_norm_with_relu.axis int: The axis of the channels.
batch_norm_with_relu.beta array: What is added, shape (C,).
bilinear_resize.mode str: What says the size: ``size``, ``like``, ``odd_scale``, ``to_even_down``, ``to_even_up``, ...
bilinear_sampler.data array: The images, shape (N, C, H, W).
beta.a number: The first shape parameter, positive.
beta.b number: The second shape parameter, positive.
box_decode.clip float: The largest size of a box's logarithm; negative: none.
broadcast_axis.axis ints: The axes, of length 1.
broadcast_axis.size ints: The lengths that they get.
col2im.output_size ints: The spatial shape of the image.
box_nms.data array: The boxes, a row each, shape (..., N, K): scores and corners stand where the attributes say.
bipartite_matching.data array: The scores of all pairs, shape (..., N, M).
multibox_prior,roi_align,roi_pooling,psroi_pooling,deformable_psroi_pooling,rroi_align,bilinear_resize,spatial_transformer,lrn,depth_to_space,space_to_depth,deformable_convolution,modulated_deformable_convolution.data array: The images, shape (N, C, H, W).
spatial_transformer.loc array: The affine maps, a row for each image, shape (N, 6).
grid_generator.data array: The affine maps, shape (N, 6), or for ``"warp"`` the shifts, shape (N, 2, H, W).
la_potrf,la_potri,la_syevd.A array: The square matrices, shape (..., n, n).
linalg_cholesky,linalg_eigvalsh,linalg_matrix_power.a array: The square matrices, shape (..., n, n).
khatri_rao.args arrays: The matrices, of equally many columns, shapes (n, k).
convolution.data array: The images: (N, C, W), (N, C, H, W) or (N, C, D, H, W).
convolution.weight array: The kernel, shape (num_filter, C / num_group, *kernel).
convolution.bias array: The bias, shape (num_filter,); left out with ``no_bias=True``.
convolve.mode str: ``"full"``, ``"same"`` or ``"valid"``: which overlaps count.
correlate.mode str: ``"full"``, ``"same"`` or ``"valid"``: which overlaps count.
cov.bias bool: Whether sums are divided by the number of observations, not by one less.
corrcoef.bias any: Taken for compatibility, and not used.
corrcoef.ddof any: Taken for compatibility, and not used.
crop.data arrays: The images, and, for ``num_args=2``, those whose size is taken.
crop.offset ints: The upper left corner of the window: (y, x).
ctc_loss.data array: Scores before the softmax, shape (T, N, C).
ctc_loss.label array: The labels, shape (N, L), filled up with 0 (blank first) or -1 (blank last).
deconvolution.data array: The images: (N, C, W), (N, C, H, W) or (N, C, D, H, W).
deconvolution.weight array: The kernel, shape (C, num_filter / num_group, *kernel).
deconvolution.bias array: The bias, shape (num_filter,); left out with ``no_bias=True``.
deformable_convolution.offset array: The taps' offsets, shape (N, 2 * groups * prod(kernel), H, W).
deformable_convolution.weight array: The kernel, shape (num_filter, C / num_group, *kernel).
modulated_deformable_convolution.offset array: The taps' offsets, shape (N, 2 * groups * prod(kernel), H, W).
modulated_deformable_convolution.mask array: The taps' weights, shape (N, groups * prod(kernel), H, W).
modulated_deformable_convolution.weight array: The kernel, shape (num_filter, C / num_group, *kernel).
diff.n int: How often differences are taken.
dropout.p float: The share of elements that become 0.
dropout.mode str: ``"training"`` (only in training) or ``"always"``.
dropout.axes ints: Axes along which all elements share one draw.
embedding.data array: The numbers of the rows, of any shape.
embedding.weight array: The table, shape (input_dim, output_dim).
eye.N int: The number of rows.
fft.data array: The input, shape (N, d) or (N, 1, 1, d).
fill_element_0index.rhs array: The columns that are written, shape (N,).
ftml_update.v array: A state of the optimizer, in the weight's shape; changed in place.
ftrl_update.beta float: What is added to the root of the sum of squared gradients.
ftrl_update.n array: The sum of squared gradients, in the weight's shape; changed in place.
fully_connected.weight array: The weight, shape (num_hidden, inputs).
fully_connected.bias array: The bias, shape (num_hidden,); left out with ``no_bias=True``.
gather_nd.indices array: The places: row k has the indices on axis k; shape (axes, ...).
_backward_gather_nd.indices array: The places: row k has the indices on axis k; shape (axes, ...).
scatter_nd.indices array: The places: row k has the indices on axis k; shape (axes, ...).
group_norm.gamma array: The scale, shape (C,).
group_norm.beta array: What is added, shape (C,).
hard_sigmoid.alpha float: The slope.
hard_sigmoid.beta float: The value at 0.
hawkesll.alpha array: The branching ratios, shape (K,).
hawkesll.beta array: The decays, shape (K,).
hawkesll.state array: The state at the start, shape (N, K).
image_adjust_lighting.alpha floats: The three strengths.
image_crop.x int: The left border, in pixels.
image_crop.y int: The upper border, in pixels.
image_normalize.mean any: The mean of each channel: a number or a tuple.
image_normalize.data array: A tensor (C, H, W) or (N, C, H, W) of floats.
image_resize.size ints: The new size: (width, height), or one number.
instance_norm.gamma array: The scale, shape (C,).
instance_norm.beta array: What is added, shape (C,).
interp.x array: Where values are asked.
isclose.b array: The second input; ``rtol`` is relative to it.
kl_sparse.momentum float: How much of the former mean activation is kept.
moving_avg array: The moving mean activation of each channel, shape (C,); updated in training.
l2_normalization.mode str: Over what the norm is taken: ``"instance"``, ``"channel"`` or ``"spatial"``.
la_gemm.axis int: The axis of the matrices' rows.
la_gemm2.axis int: The axis of the matrices' rows.
lamb_update_phase2.lower_bound float: The smallest norm of the weight that counts; negative: none.
lamb_update_phase2.upper_bound float: The largest norm of the weight that counts; negative: none.
mp_lamb_update_phase2.lower_bound float: The smallest norm of the weight that counts; negative: none.
mp_lamb_update_phase2.upper_bound float: The largest norm of the weight that counts; negative: none.
layer_norm.axis int: The axis that is normalised.
layer_norm.gamma array: The scale, shape (length of the axis,).
layer_norm.beta array: What is added, shape (length of the axis,).
leaky_relu.gamma array: The learned slopes of ``prelu``, one for each channel.
linalg_cond.p any: The norm: 2 by default, or what `np.linalg.norm` takes.
linalg_matrix_power.n int: The exponent, which may be negative.
linalg_matrix_rank.M array: The matrices.
linalg_qr.mode str: Only ``"reduced"``.
linalg_solve.a array: The square matrices, shape (..., n, n).
linalg_solve.b array: The right-hand sides, shape (..., n) or (..., n, k).
linalg_tensorinv.ind int: How many axes belong to the rows.
linalg_tensorsolve.axes ints: Which axes of ``a`` are moved to its end first.
lognormal.mean number: The mean of the logarithm.
lrn.alpha float: The factor of the sum of squares.
lrn.beta float: The exponent.
masked_softmax.normalize bool: Taken for compatibility, and not used.
moments.axes ints: The axes; all if they are left out.
multibox_target.label array: The true boxes: rows of class and corners, shape (B, M, 5), filled up with -1.
multivariate_normal.mean array: The mean, shape (d,).
categorical.shape ints: How many outcomes of each row are drawn.
categorical.data array: The probabilities, whose last axis adds up to 1.
norm.ord int: 1 or 2.
pad.mode str: ``"constant"``, ``"edge"``, ``"reflect"``, ``"symmetric"``, ``"maximum"`` or ``"minimum"``.
partition.kind str: Taken for compatibility, and not used.
pick.mode str: What becomes of indices out of range: ``"clip"`` or ``"wrap"``.
polyval.p array: The coefficients, the highest power's first.
polyval.x array: Where the polynomial is evaluated.
pareto.a number: The shape parameter, positive.
weibull.a number: The shape parameter, positive.
random_power.a number: The exponent plus one, positive.
quadratic.a float: The coefficient of the square.
quadratic.b float: The coefficient of the linear term.
quantized_act.act_type str: Only ``"relu"``.
quantized_batch_norm.beta array: What is added, shape (C,).
quantized_batch_norm.axis int: The axis of the channels.
random_gamma.shape number: The shape parameter, positive.
random_pdf_dirichlet.alpha array: The concentrations, shape (..., k).
random_pdf_gamma.alpha array: The shape parameter, positive.
random_pdf_gamma.beta array: The rate, positive.
random_pdf_generalized_negative_binomial.alpha array: The dispersion, positive.
random_pdf_negative_binomial.k array: The number of failures, positive.
random_pdf_negative_binomial.p array: The probability of a failure.
rmsprop_update.n array: The mean of squared gradients, in the weight's shape; changed in place.
rmspropalex_update.g array: The mean of gradients, in the weight's shape; changed in place.
rmspropalex_update.n array: The mean of squared gradients, in the weight's shape; changed in place.
rnn.data array: The sequences, shape (T, N, C).
rnn.mode str: ``"rnn_relu"``, ``"rnn_tanh"``, ``"lstm"`` or ``"gru"``.
rnn.p float: The share of dropout between layers.
rnn.state array: The states at the start, shape (layers * directions, N, state_size).
roi_pooling.pooled_size ints: The height and width of the result.
rollaxis.start int: Before which axis it comes.
rot90.axes ints: The plane that turns: from the first axis to the second.
rot90.k int: How often.
scalar_poisson.lam float: The rate, not negative.
searchsorted.v array: The numbers that would be inserted.
sequence_last.axis int: The axis of the steps, 0 or 1.
sequence_mask.axis int: The axis of the steps, 0 or 1.
sequence_mask.value float: What the steps beyond the length become.
slice_axis.begin int: Where the part begins.
slice_axis.end any: Where it ends, which is not in it; None: at the end.
slice_axis.axis int: The axis that is cut.
slice_.step ints: The distance of one element to the next on each axis.
softmax_activation.mode str: ``"instance"`` (all but axis 0) or ``"channel"`` (axis 1).
softmax_cross_entropy.label array: The class of each row, shape (N,).
softmax_output.label array: The classes, in the input's shape without the axis of classes.
take.mode str: What becomes of indices out of range: ``"clip"``, ``"wrap"`` or ``"raise"``.
tensordot.axes any: How many axes are summed over, or a pair of lists of axes.
topk.k int: How many elements.
topk.dtype dtype: The dtype of the indices.
transpose.axes ints: The axes in their new order; reversed if they are left out.
trapz.x array: Where the points are; they are ``dx`` apart without it.
trapz.y array: The values.
tri.k int: Up to which diagonal: 0 the main one, positive above it, negative below.
tril.k int: Up to which diagonal elements stay.
tril_indices.m int: The number of columns; ``n`` if it is left out.
tril_indices.n int: The number of rows.
triu.k int: From which diagonal elements stay.
triu_indices.m int: The number of columns; ``n`` if it is left out.
triu_indices.n int: The number of rows.
unwrap.p array: The phases.
mrcnn_mask_target.rois array: The corners of the regions in pixels, shape (B, N, 4).
mrcnn_mask_target.matches array: For each region the number of its object's mask, shape (B, N).
up_sampling.data arrays: The images, shape (N, C, H, W); for ``bilinear`` followed by the kernel.
up_sampling.scale int: The factor of height and width.
vander.N int: The number of columns; the vector's length if it is left out.
where.x array: What is taken where the condition holds.
where.y array: What is taken elsewhere.
_random_gamma.alpha float: The shape parameter, positive.
_random_gamma.beta float: The scale, positive.
_gamma_like.alpha float: The shape parameter, positive.
_gamma_like.beta float: The scale, positive.
_sample_gamma.alpha array: The shape parameters, positive.
_sample_gamma.beta array: The scales, positive.
_random_binomial.n number: The number of trials.
_random_binomial.p number: The probability of success.
_binomial_like.n number: The number of trials.
_sample_binomial.n array: The numbers of trials.
_sample_binomial.p array: The probabilities of success.
_random_negative_binomial.k number: The number of failures, positive.
_negative_binomial_like.k number: The number of failures, positive.
_sample_negative_binomial.k array: The numbers of failures, positive.
_sample_negative_binomial.p array: The probabilities of a failure.
_random_generalized_negative_binomial.alpha number: The dispersion, positive.
_generalized_negative_binomial_like.alpha number: The dispersion, positive.
_sample_generalized_negative_binomial.alpha array: The dispersions, positive.
_sample_uniform.shape ints: How many draws are made for each element of the parameters.
_sample_normal.shape ints: How many draws are made for each element of the parameters.
"""

"""Names that MXNet's modules hold because they import them: `mxnet.gluon.block.Symbol`, `mxnet.metric.ndarray`.

Programs import them from there. `_modules` asks here when a module does not have a name itself, so that none of these
is imported before somebody wants it, and this file is not read before.
"""

from __future__ import annotations

import importlib
import importlib.util
from functools import cache
from typing import Any

#: Where names live: a module, of which they are names, ``name=other`` if they are called otherwise there; without the
#: colon they are the module itself. ``/`` begins a module of Python, ``?`` a package that may be absent: None then.
HOMES: dict[str, str] = {
    "": "mx",
    "/math:": "inf nan pi",
    "?cv2": "cv2",
    "?h5py": "h5py",
    "?scipy.special": "sc",
    "?scipy.stats": "ss stats",
    "_deferred_compute": "_deferred_compute dc",
    "amp.convert:": "convert_hybrid_block convert_model convert_symbol",
    "amp.lists": "lists",
    "amp:": "convert_bucketing_module",
    "attribute:": "AttrScope current_attribute=current",
    "autograd": "ag autograd",
    "autograd:": "_RecordingStateScope=_Scope is_recording",
    "base": "base",
    "base:": (
        "MXNetError NotSupportedForSparseNDArray _as_list integer_types numeric_types register_error string_types"
    ),
    "callback:": "LogValidationMetricsCallback",
    "context": "context ctx",
    "context:": "Context cpu current_context gpu",
    "contrib.older_quantization:": (
        "_DataIterWrapper _LayerHistogramCollector _LayerOutputMinMaxCollector _as_data_iter "
        "_collect_layer_histogram _collect_layer_output_min_max _collect_layer_statistics "
        "_generate_list_of_data_desc _get_optimal_threshold _get_optimal_thresholds _load_params _load_sym "
        "_smooth_distribution"
    ),
    "contrib.svrg_optimization.svrg_optimizer:": "_SVRGOptimizer",
    "contrib.text": "text",
    "contrib.text._constants": "C _constants",
    "device": "_device",
    "device:": "Device current_device",
    "dlpack:": (
        "DLDeviceType ndarray_from_dlpack ndarray_from_numpy ndarray_to_dlpack_for_read ndarray_to_dlpack_for_write"
    ),
    "engine:": "_BulkScope=_Bulk",
    "errors:": "error_types=_REGISTRY",
    "executor:": "Executor",
    "executor_manager:": "DataParallelExecutorManager _check_arguments _load_data _load_label _split_input_slice",
    "gluon.block:": "Block HybridBlock",
    "gluon.contrib.data.older:": "_LanguageModelDataset",
    "gluon.contrib.data.vision.transforms.bbox.bbox:": (
        "ImageBboxCrop ImageBboxRandomCropWithConstraints ImageBboxRandomFlipLeftRight ImageBboxResize"
    ),
    "gluon.contrib.nn:": "HybridConcurrent Identity",
    "gluon.data.batchify": "_batchify",
    "gluon.data.dataset": "dataset",
    "gluon.data.dataset:": "Dataset",
    "gluon.data.older:": (
        "ConnectionWrapper DataLoaderV1 Queue SimpleQueue _DownloadedDataset _FilteredDataset _MultiWorkerIter "
        "_MultiWorkerIterV1 _append_arrs _as_in_context _pad_arrs_to_max_length _thread_worker_fn "
        "_thread_worker_initializer _worker_dataset _worker_fn _worker_initializer default_batchify_fn "
        "default_mp_batchify_fn fetcher_loop_v1 rebuild_ndarray rebuild_np_ndarray reduce_ndarray reduce_np_ndarray "
        "worker_loop_v1"
    ),
    "gluon.data.sampler": "_sampler",
    "gluon.data.sampler:": "Sampler",
    "gluon.data.vision.transforms:": "RandomRotation Rotate",
    "gluon.legacy.helpers:": (
        "_BlockScope _append_return _brief_print_list _check_all_np_ndarrays _check_block_input_np_ndarrays "
        "_check_same_symbol_type _common_prefix _flatten _gather_type_ctx_info _gather_type_device_info "
        "_get_repo_url _indent _infer_param_types _infer_weight_shape _regroup _reshape_like"
    ),
    "gluon.loss:": "gluon_loss=Loss",
    "gluon.metric": "metric",
    "gluon.metric.base:": "_create",
    "gluon.metric.older:": "_BinaryClassificationMetrics",
    "gluon.metric:": "metric_loss=Loss",
    "gluon.naming:": "_naming_counter=_begun _prefix",
    "gluon.nn.activations:": "Activation LeakyReLU",
    "gluon.nn.conv:": "_Conv _Pooling=_Pool",
    "gluon.nn.norm:": "_BatchNorm=BatchNorm",
    "gluon.nn:": "BatchNorm HybridSequential Sequential",
    "gluon.parameter:": "DeferredInitializationError Parameter ParameterDict",
    "gluon.probability.distributions.chi2:": "Chi2",
    "gluon.probability.distributions.divergence:": (
        "_kl_bernoulli_bernoulli=_bernoulli _kl_beta_beta=_beta _kl_binomial_binomial=_binomial "
        "_kl_categorical_categorical=_categorical _kl_cauchy_cauchy=_cauchy _kl_dirichlet_dirichlet=_dirichlet "
        "_kl_exponential_exponential=_exponential _kl_exponential_gamma=_exponential_gamma "
        "_kl_exponential_gumbel=_exponential_gumbel _kl_exponential_normal=_exponential_normal "
        "_kl_gamma_gamma=_gamma _kl_geometric_geometric=_geometric _kl_gumbel_gumbel=_gumbel "
        "_kl_halfNormal_halfNormal=_half_normal _kl_laplace_laplace=_laplace _kl_mvn_mvn=_multivariate_normal "
        "_kl_onehotcategorical_onehotcategorical=_one_hot _kl_pareto_pareto=_pareto _kl_poisson_poisson=_poisson "
        "_kl_uniform_gumbel=_uniform_gumbel _kl_uniform_normal=_uniform_normal _kl_uniform_uniform=_uniform"
    ),
    "gluon.probability.distributions.gamma:": "Gamma",
    "gluon.probability.distributions.one_hot_categorical:": "OneHotCategorical",
    "gluon.probability.distributions.poisson:": "Poisson",
    "gluon.probability.distributions.utils:": (
        "_CachedProperty=cached_property cached_property logit2prob prob2logit sample_n_shape_converter"
    ),
    "gluon.probability.transformation.domain_map:": (
        "_transform_to_greater_than=_greater _transform_to_interval=_interval _transform_to_less_than=_less "
        "_transform_to_positive=_positive"
    ),
    "gluon.probability.transformation.transformation:": "_InverseTransformation=_Inverse",
    "gluon.rnn._formats:": (
        "_cells_begin_state _cells_state_info _format_sequence _get_begin_state _get_conv_out_size "
        "_mask_sequence_variable_length _reverse_sequences tensor_types"
    ),
    "gluon.rnn.conv_rnn_cell:": "_BaseConvRNNCell=_ConvCell _ConvGRUCell _ConvLSTMCell _ConvRNNCell",
    "gluon.rnn.rnn_cell": "rnn_cell",
    "gluon.rnn.rnn_cell:": "BidirectionalCell HybridRecurrentCell ModifierCell SequentialRNNCell dynamic_unroll",
    "gluon.trainer": "trainer",
    "gluon.utils:": "_get_repo_file_url check_sha1 download replace_file shape_is_known split_and_load",
    "image": "image",
    "image.detection": "det detection",
    "image.detection:": (
        "CreateDetAugmenter CreateMultiRandCropAugmenter DetAugmenter DetBorrowAug DetHorizontalFlipAug "
        "DetRandomCropAug DetRandomPadAug DetRandomSelectAug ImageDetIter"
    ),
    "image.functions:": "_get_interp_method",
    "image.image:": (
        "Augmenter BrightnessJitterAug CastAug CenterCropAug ColorJitterAug ColorNormalizeAug ContrastJitterAug "
        "CreateAugmenter ForceResizeAug HorizontalFlipAug HueJitterAug ImageIter LightingAug RandomCropAug "
        "RandomGrayAug RandomOrderAug RandomSizedCropAug ResizeAug SaturationJitterAug SequentialAug center_crop "
        "color_normalize fixed_crop imdecode imread imresize imrotate random_rotate random_size_crop resize_short "
        "scale_down"
    ),
    "initializer.base:": "_register=register",
    "initializer:": "Uniform",
    "io": "io",
    "io.files:": "CSVIter LibSVMIter MNISTIter",
    "io.io": "_io",
    "io.io:": "DataBatch DataDesc DataIter",
    "io.native:": "MXDataIter",
    "io.records:": "ImageDetRecordIter ImageRecordInt8Iter ImageRecordIter ImageRecordUInt8Iter",
    "io.utils:": "_getdata_by_idx _has_instance _init_data _slice_along_batch_axis",
    "io:": "ImageRecordIter_v1 ImageRecordUInt8Iter_v1",
    "kvstore": "kvs",
    "kvstore.adapters:": "TestStore",
    "kvstore.base:": "create",
    "kvstore.store:": "KVStore",
    "libinfo": "libinfo",
    "model:": "load_checkpoint save_checkpoint",
    "modes:": "_set_np_array=set_arrays",
    "module.base_module:": (
        "BaseModule _check_input_names=check_input_names _check_names_match=check_names_match "
        "_parse_data_desc=parse_data_desc"
    ),
    "module.bucketing_module:": "BucketingModule",
    "module.executor_group:": "_merge_multi_context=merge _prepare_group2ctxs=_groups_of",
    "module.module:": "Module",
    "module.older:": (
        "_bind_exec _create_kvstore _create_sparse_kvstore _initialize_kvstore _load_general "
        "_monitor_callback_wrapper _multiple_callbacks _train_multi_device _update_params _update_params_on_kvstore "
        "_update_params_on_kvstore_nccl"
    ),
    "name": "_name",
    "name:": "NameManager",
    "nd": "nd ndarray op",
    "nd._internal": "_internal",
    "nd.codes:": (
        "_DTYPE_MX_TO_NP _DTYPE_NP_TO_MX _GRAD_REQ_MAP _SIGNED_INT32_UPPER_LIMIT _STORAGE_TYPE_CSR "
        "_STORAGE_TYPE_DEFAULT _STORAGE_TYPE_ID_TO_STR _STORAGE_TYPE_ROW_SPARSE _STORAGE_TYPE_STR_TO_ID "
        "_STORAGE_TYPE_UNDEFINED _int64_enabled _storage_type"
    ),
    "nd.contrib": "contrib",
    "nd.contrib:": (
        "adabelief_update adamw_update mp_adabelief_update mp_adamw_update multi_adabelief_update multi_adamw_update "
        "multi_lamb_update multi_lans_update multi_mp_adabelief_update multi_mp_adamw_update multi_mp_lamb_update "
        "multi_mp_lans_update"
    ),
    "nd.random:": "normal uniform",
    "nd.sparse": "sparse",
    "nd.sparse:": (
        "CSRNDArray _empty_sparse_ndarray=empty _sparse_array=array _zeros_sparse_ndarray=zeros gs_retain=retain "
        "sparse_array=array"
    ),
    "nd:": (
        "NDArray _array=array _empty_ndarray=empty _zeros_ndarray=zeros array full load maximum minimum multiply "
        "nd_load=load nd_save=save zeros"
    ),
    "np": "_mx_nd_np _mx_np _mx_np_op _np mx_np np numpy",
    "np._internal": "_npi",
    "np.fallback": "fallback_mod",
    "np:": "np_ndarray=ndarray",
    "npx": "_mx_nd_npx _mx_npx mx_npx npx",
    "older_base:": (
        "_CUDA_SUCCESS _MAX_VALUE_64_BIT_SIGNED_ _MAX_VALUE_64_BIT_UNSIGNED_ _MAX_VALUE_FLOAT32_REPRESENT_ "
        "_MXClassPropertyDescriptor _MXClassPropertyMetaClass _NP_EXT_OP_PREFIX _NP_EXT_OP_SUBMODULE_LIST "
        "_NP_INTERNAL_OP_PREFIX _NP_OP_IMPLEMENTED_SET _NP_OP_PREFIX _NP_OP_SUBMODULE_LIST "
        "_NP_OUTPUT_IS_LIST_OPERATORS _Null _NullType _NumpyDefaultDtypeScope _OP_NAME_PREFIX_LIST _as_classic "
        "_build_param_doc=build_param_doc _flatten_list _get_op_name_prefix _get_op_submodule_name _is_np_op "
        "_output_is_list _sanity_check_params _set_np_array_logged _set_np_default_dtype_logged _set_np_shape_logged "
        "_str2tuple=_as_sizes add_fileline_to_docstring build_param_doc c_array c_array_buf c_str c_str_array "
        "check_call classproperty ctypes2buffer data_dir_default mx_float mx_float_p mx_int mx_int64 mx_uint "
        "with_metaclass"
    ),
    "operator:": "get_all_registered_operators_grouped",
    "optimizer": "opt",
    "optimizer.adam:": "Adam Adamax LAMB Nadam",
    "optimizer.adaptive:": "AdaDelta AdaGrad FTML Ftrl RMSProp",
    "optimizer.legacy:": "LBSGD ccSGD",
    "optimizer.sgd:": "DCASGD LARS NAG SGD SGLD Signum Test",
    "optimizer.updater:": "Updater get_updater",
    "profiler": "_profiler",
    "profiler._objects:": "_current_scope",
    "profiler:": "_profiler_scope=scope profiler_scope=scope set_kvstore_handle",
    "random": "_mx_rand random",
    "recordio": "recordio",
    "registry": "registry",
    "registry:": "_REGISTRY=_TABLES",
    "rnn.conv_cell:": "BaseConvRNNCell ConvGRUCell ConvLSTMCell ConvRNNCell",
    "rnn.fused_cell:": "FusedRNNCell",
    "rnn.modifiers:": "ResidualCell ZoneoutCell",
    "rnn.older:": "_cells_pack_weights _cells_state_shape _cells_unpack_weights",
    "runtime:": "Features",
    "symbol": "sym symbol",
    "symbol.contrib": "symbol_contrib",
    "symbol.numpy": "_mx_sym_np _symbol np_symbol",
    "symbol.symbol:": "Group Symbol",
    "symbol:": "fromjson load_json sym_load=load",
    "test_utils.older:": (
        "_features _find_max_violation _get_powerlaw_dataset_csr _get_uniform_dataset_csr _sorted_dict _sorted_items"
    ),
    "test_utils.sparse:": "_validate_csr_generation_inputs=_check_csr",
    "test_utils.symbols:": "_parse_aux_states=_auxiliary _parse_location=_location",
    "util:": (
        "_np_ufunc_default_kwargs=_UFUNC_DEFAULTS default_array dtype_from_number get_cuda_compute_capability "
        "get_max_supported_compute_capability get_rtc_compile_opts is_np_array is_np_default_dtype is_np_shape "
        "np_array np_shape set_module set_np use_np wrap_ctx_to_device_func wrap_data_api_linalg_func "
        "wrap_data_api_statical_func wrap_np_binary_func wrap_np_unary_func wrap_sort_functions"
    ),
}

#: What each module holds besides its own: names that live where `HOMES` says, or ``name=module:name``.
HELD: dict[str, str] = {
    "": "_deferred_compute np_symbol",
    "_deferred_compute": "_as_list",
    "amp.amp": (
        "Block BucketingModule NDArray Symbol _DTYPE_MX_TO_NP _DTYPE_NP_TO_MX _NP_EXT_OP_PREFIX "
        "_NP_EXT_OP_SUBMODULE_LIST _NP_INTERNAL_OP_PREFIX _NP_OP_PREFIX _NP_OP_SUBMODULE_LIST base "
        "convert_bucketing_module convert_hybrid_block convert_model convert_symbol "
        "get_all_registered_operators_grouped gpu lists ndarray numpy opt symbol symbol_contrib trainer "
        "wrap_ctx_to_device_func"
    ),
    "amp.lists.symbol_fp16": "Features",
    "amp.loss_scaler": "ag is_np_array nd ndarray",
    "attribute": "_MXClassPropertyMetaClass classproperty string_types with_metaclass",
    "autograd": "Symbol _GRAD_REQ_MAP _RecordingStateScope is_np_array string_types",
    "base": (
        "_MAX_VALUE_64_BIT_SIGNED_ _MAX_VALUE_64_BIT_UNSIGNED_ _MAX_VALUE_FLOAT32_REPRESENT_ "
        "_MXClassPropertyDescriptor _MXClassPropertyMetaClass _NP_EXT_OP_PREFIX _NP_EXT_OP_SUBMODULE_LIST "
        "_NP_INTERNAL_OP_PREFIX _NP_OP_IMPLEMENTED_SET _NP_OP_PREFIX _NP_OP_SUBMODULE_LIST "
        "_NP_OUTPUT_IS_LIST_OPERATORS _Null _NullType _OP_NAME_PREFIX_LIST _get_op_name_prefix "
        "_get_op_submodule_name _is_np_op _output_is_list add_fileline_to_docstring build_param_doc c_array "
        "c_array_buf c_str c_str_array check_call classproperty ctypes2buffer data_dir_default error_types libinfo "
        "mx_float mx_float_p mx_int mx_int64 mx_uint with_metaclass"
    ),
    "callback": "save_checkpoint",
    "context": "_MXClassPropertyMetaClass classproperty with_metaclass",
    "contrib.autograd": "_GRAD_REQ_MAP string_types",
    "contrib.quantization": (
        "Context DataBatch DataDesc DataIter Device Module NDArray _DataIterWrapper _LayerHistogramCollector "
        "_LayerOutputMinMaxCollector _as_data_iter _collect_layer_histogram _collect_layer_output_min_max "
        "_collect_layer_statistics _generate_list_of_data_desc _get_optimal_threshold _get_optimal_thresholds "
        "_load_params _load_sym _smooth_distribution cpu is_np_array mx nd_load nd_save ndarray stats sym_load "
        "wrap_ctx_to_device_func"
    ),
    "contrib.svrg_optimization.svrg_module": "_SVRGOptimizer mx",
    "contrib.svrg_optimization.svrg_optimizer": "mx",
    "contrib.text": "_constants",
    "contrib.text.embedding": "C _mx_np _mx_npx base is_np_array",
    "contrib.text.vocab": "C",
    "dlpack": "current_device",
    "engine": "_BulkScope",
    "error": "register_error",
    "executor": "_check_arguments _load_data _load_label _monitor_callback_wrapper _split_input_slice ndarray",
    "executor_manager": "_bind_exec nd",
    "gluon.block": (
        "DeferredInitializationError MXNetError Symbol _BlockScope _brief_print_list _check_all_np_ndarrays "
        "_check_block_input_np_ndarrays _check_same_symbol_type _common_prefix _device _flatten "
        "_gather_type_ctx_info _gather_type_device_info _indent _infer_param_types _mx_np _mx_npx _name "
        "_naming_counter _prefix _profiler _regroup autograd dc fromjson is_np_array load_json nd ndarray np_array "
        "np_shape np_symbol shape_is_known symbol wrap_ctx_to_device_func"
    ),
    "gluon.contrib.cnn": "Activation HybridBlock numeric_types symbol",
    "gluon.contrib.data.text": "C=gluon.contrib.data._constants _LanguageModelDataset base dataset nd text",
    "gluon.contrib.data.vision.dataloader": "_mx_np is_np_array nd",
    "gluon.contrib.data.vision.transforms": (
        "ImageBboxCrop ImageBboxRandomCropWithConstraints ImageBboxRandomFlipLeftRight ImageBboxResize"
    ),
    "gluon.contrib.data.vision.transforms.bbox.bbox": "is_np_array nd numeric_types",
    "gluon.contrib.estimator.batch_processor": "npx",
    "gluon.contrib.estimator.estimator": "Context gluon_loss metric_loss split_and_load",
    "gluon.contrib.estimator.event_handler": "metric_loss",
    "gluon.contrib.nn": "BatchNorm HybridBlock HybridSequential Sequential context nd",
    "gluon.contrib.rnn": (
        "BidirectionalCell HybridRecurrentCell ModifierCell SequentialRNNCell _BaseConvRNNCell _ConvGRUCell "
        "_ConvLSTMCell _ConvRNNCell _as_list _format_sequence _get_begin_state _get_conv_out_size "
        "_mask_sequence_variable_length dynamic_unroll numeric_types tensor_types"
    ),
    "gluon.data": "_internal=gluon.data._internal",
    "gluon.data._internal": "Dataset NDArray Sampler _build_param_doc _io default_array is_np_array",
    "gluon.data.batchify": "Device _append_arrs _np _pad_arrs_to_max_length cpu=device:cpu is_np_array nd",
    "gluon.data.dataloader": (
        "ConnectionWrapper DataLoaderV1 Queue SimpleQueue _MultiWorkerIter _MultiWorkerIterV1 _as_in_context "
        "_batchify _mx_np _sampler _thread_worker_fn _thread_worker_initializer _worker_dataset _worker_fn "
        "_worker_initializer context default_batchify_fn default_mp_batchify_fn fetcher_loop_v1 is_np_array "
        "is_np_shape nd rebuild_ndarray rebuild_np_ndarray reduce_ndarray reduce_np_ndarray set_np worker_loop_v1"
    ),
    "gluon.data.dataset": "_DownloadedDataset _FilteredDataset default_array ndarray",
    "gluon.data.vision.datasets": (
        "_get_repo_file_url _mx_np base check_sha1 dataset default_array download image nd numeric_types"
    ),
    "gluon.data.vision.transforms": "_append_return is_np_array npx numeric_types use_np",
    "gluon.data.vision.transforms.image": "Block RandomRotation Rotate _append_return image numeric_types use_np",
    "gluon.loss": "HybridBlock _reshape_like is_np_array ndarray use_np",
    "gluon.metric": (
        "_BinaryClassificationMetrics _create ndarray npx numeric_types numpy registry string_types use_np"
    ),
    "gluon.model_zoo.model_store": "download replace_file",
    "gluon.model_zoo.vision.alexnet": "HybridBlock base cpu use_np wrap_ctx_to_device_func",
    "gluon.model_zoo.vision.densenet": "HybridBlock HybridConcurrent Identity base cpu use_np wrap_ctx_to_device_func",
    "gluon.model_zoo.vision.inception": "HybridBlock HybridConcurrent base cpu use_np wrap_ctx_to_device_func",
    "gluon.model_zoo.vision.mobilenet": "base cpu use_np wrap_ctx_to_device_func",
    "gluon.model_zoo.vision.resnet": "base cpu is_np_array use_np wrap_ctx_to_device_func",
    "gluon.model_zoo.vision.squeezenet": "HybridBlock HybridConcurrent base cpu use_np wrap_ctx_to_device_func",
    "gluon.model_zoo.vision.vgg": "HybridBlock base cpu use_np wrap_ctx_to_device_func",
    "gluon.nn": (
        "Parameter _BatchNorm _Conv _Pooling _device _indent _infer_weight_shape is_np_array nd np npx numeric_types "
        "sym symbol use_np"
    ),
    "gluon.nn.activations": "is_np_array use_np",
    "gluon.parameter": (
        "Context MXNetError _brief_print_list _device _indent _mx_np autograd context cpu dc is_np_array "
        "shape_is_known symbol wrap_ctx_to_device_func"
    ),
    "gluon.probability.block.stochastic_block": "_indent",
    "gluon.probability.distributions.bernoulli": "cached_property logit2prob npx prob2logit sample_n_shape_converter",
    "gluon.probability.distributions.beta": "sample_n_shape_converter",
    "gluon.probability.distributions.binomial": "cached_property logit2prob npx prob2logit sample_n_shape_converter",
    "gluon.probability.distributions.categorical": "cached_property logit2prob prob2logit sample_n_shape_converter",
    "gluon.probability.distributions.cauchy": "nan pi sample_n_shape_converter",
    "gluon.probability.distributions.dirichlet": "sample_n_shape_converter",
    "gluon.probability.distributions.divergence": (
        "_kl_bernoulli_bernoulli _kl_beta_beta _kl_binomial_binomial _kl_categorical_categorical _kl_cauchy_cauchy "
        "_kl_dirichlet_dirichlet _kl_exponential_exponential _kl_exponential_gamma _kl_exponential_gumbel "
        "_kl_exponential_normal _kl_gamma_gamma _kl_geometric_geometric _kl_gumbel_gumbel _kl_halfNormal_halfNormal "
        "_kl_laplace_laplace _kl_mvn_mvn _kl_onehotcategorical_onehotcategorical _kl_pareto_pareto "
        "_kl_poisson_poisson _kl_uniform_gumbel _kl_uniform_normal _kl_uniform_uniform"
    ),
    "gluon.probability.distributions.exponential": "cached_property sample_n_shape_converter",
    "gluon.probability.distributions.fishersnedecor": "Gamma nan",
    "gluon.probability.distributions.gamma": "sample_n_shape_converter",
    "gluon.probability.distributions.geometric": "cached_property logit2prob prob2logit sample_n_shape_converter",
    "gluon.probability.distributions.gumbel": "sample_n_shape_converter",
    "gluon.probability.distributions.half_cauchy": "inf",
    "gluon.probability.distributions.half_normal": "inf",
    "gluon.probability.distributions.laplace": "sample_n_shape_converter",
    "gluon.probability.distributions.multinomial": "OneHotCategorical cached_property logit2prob prob2logit",
    "gluon.probability.distributions.negative_binomial": "Gamma Poisson cached_property logit2prob prob2logit",
    "gluon.probability.distributions.normal": "npx",
    "gluon.probability.distributions.pareto": "sample_n_shape_converter",
    "gluon.probability.distributions.poisson": "npx",
    "gluon.probability.distributions.relaxed_bernoulli": "cached_property logit2prob prob2logit",
    "gluon.probability.distributions.relaxed_one_hot_categorical": "cached_property logit2prob prob2logit",
    "gluon.probability.distributions.studentT": "Chi2 inf nan pi sample_n_shape_converter",
    "gluon.probability.distributions.transformed_distribution": "np",
    "gluon.probability.distributions.uniform": "sample_n_shape_converter",
    "gluon.probability.distributions.utils": "_CachedProperty sc",
    "gluon.probability.distributions.weibull": "npx sample_n_shape_converter",
    "gluon.probability.transformation.domain_map": (
        "_transform_to_greater_than _transform_to_interval _transform_to_less_than _transform_to_positive"
    ),
    "gluon.probability.transformation.transformation": "_InverseTransformation",
    "gluon.rnn.conv_rnn_cell": (
        "HybridRecurrentCell Parameter _BaseConvRNNCell _get_conv_out_size np numeric_types use_np"
    ),
    "gluon.rnn.rnn_cell": (
        "Block HybridBlock LeakyReLU Parameter _as_list _cells_begin_state _cells_state_info _format_sequence "
        "_get_begin_state _indent _mask_sequence_variable_length _reverse_sequences cpu=device:cpu ndarray "
        "numeric_types string_types symbol tensor_types use_np"
    ),
    "gluon.rnn.rnn_layer": "cpu=device:cpu is_np_array ndarray rnn_cell symbol tensor_types use_np",
    "gluon.trainer": "KVStore ParameterDict _create_kvstore _create_sparse_kvstore",
    "gluon.utils": (
        "_brief_print_list _check_all_np_ndarrays _check_block_input_np_ndarrays _check_same_symbol_type "
        "_get_repo_url _indent _mx_np is_np_array is_np_shape ndarray"
    ),
    "image": "cv2 is_np_array numeric_types",
    "image.detection": (
        "CastAug ColorJitterAug ColorNormalizeAug HueJitterAug LightingAug RandomGrayAug RandomOrderAug _mx_np io "
        "is_np_array nd numeric_types"
    ),
    "image.image": "_get_interp_method _internal _mx_np _npi cv2 io is_np_array nd numeric_types recordio",
    "initializer": "NDArray _mx_np _register is_np_array load ndarray random registry string_types",
    "io": "_getdata_by_idx _has_instance _init_data",
    "io.io": (
        "CSRNDArray CSVIter ImageDetRecordIter ImageRecordInt8Iter ImageRecordIter ImageRecordIter_v1 "
        "ImageRecordUInt8Iter ImageRecordUInt8Iter_v1 LibSVMIter MNISTIter MXDataIter _build_param_doc _has_instance "
        "_slice_along_batch_axis is_np_array"
    ),
    "io.utils": "CSRNDArray h5py sparse_array",
    "kvstore.base": "NDArray TestStore set_kvstore_handle string_types",
    "kvstore.kvstore_server": "create",
    "kvstore.store": "opt",
    "lr_scheduler": "pi",
    "model": (
        "Context DataDesc DataParallelExecutorManager LogValidationMetricsCallback Uniform _check_arguments "
        "_create_kvstore _create_sparse_kvstore _initialize_kvstore _load_data _multiple_callbacks "
        "_train_multi_device _update_params _update_params_on_kvstore _update_params_on_kvstore_nccl get_updater io "
        "kvs metric opt sym"
    ),
    "module.base_module": "_check_input_names _check_names_match _parse_data_desc cpu metric ndarray",
    "module.bucketing_module": "BaseModule Uniform _check_input_names ctx sym",
    "module.executor_group": (
        "_DTYPE_MX_TO_NP _load_data=module.older:_load_data _load_general _load_label=module.older:_load_label "
        "_merge_multi_context _prepare_group2ctxs _split_input_slice ctx"
    ),
    "module.module": (
        "BaseModule Uniform _check_input_names _create_kvstore _initialize_kvstore _parse_data_desc _update_params "
        "_update_params_on_kvstore ctx zeros"
    ),
    "module.python_module": "Uniform",
    "module.sequential_module": "Uniform",
    "monitor": "ndarray",
    "name": "_MXClassPropertyMetaClass classproperty with_metaclass",
    "nd": (
        "Context Device Features _DTYPE_MX_TO_NP _DTYPE_NP_TO_MX _GRAD_REQ_MAP _Null _SIGNED_INT32_UPPER_LIMIT "
        "_STORAGE_TYPE_CSR _STORAGE_TYPE_DEFAULT _STORAGE_TYPE_ID_TO_STR _STORAGE_TYPE_ROW_SPARSE "
        "_STORAGE_TYPE_STR_TO_ID _STORAGE_TYPE_UNDEFINED _array _empty_ndarray _empty_sparse_ndarray _int64_enabled "
        "_sparse_array _storage_type _zeros_ndarray _zeros_sparse_ndarray current_context current_device "
        "integer_types is_np_array ndarray_from_dlpack ndarray_from_numpy ndarray_to_dlpack_for_read "
        "ndarray_to_dlpack_for_write numeric_types string_types"
    ),
    "nd._internal": "_Null",
    "nd.contrib": "_Null _as_list _flatten _flatten_list _regroup current_context current_device mx ndarray uniform",
    "nd.image": "_Null",
    "nd.linalg": "_Null",
    "nd.random": "_Null _internal current_context numeric_types",
    "nd.sparse": (
        "Context Device NotSupportedForSparseNDArray _DTYPE_MX_TO_NP _DTYPE_NP_TO_MX _Null _STORAGE_TYPE_CSR "
        "_STORAGE_TYPE_DEFAULT _STORAGE_TYPE_ROW_SPARSE _STORAGE_TYPE_STR_TO_ID _STORAGE_TYPE_UNDEFINED _array "
        "_int64_enabled _internal _storage_type _zeros_ndarray current_context current_device gs_retain "
        "integer_types numeric_types op"
    ),
    "np": (
        "Context DLDeviceType Device Features NDArray _DTYPE_NP_TO_MX _GRAD_REQ_MAP _SIGNED_INT32_UPPER_LIMIT "
        "_int64_enabled _mx_nd_np _mx_np_op _npi _sanity_check_params _storage_type current_context current_device "
        "dc dtype_from_number integer_types is_np_default_dtype is_recording ndarray_from_dlpack ndarray_from_numpy "
        "ndarray_to_dlpack_for_write numeric_types set_module wrap_ctx_to_device_func wrap_data_api_statical_func "
        "wrap_np_binary_func wrap_np_unary_func wrap_sort_functions"
    ),
    "np.fallback": "fallback_mod",
    "np.linalg": "_mx_nd_np _npi wrap_data_api_linalg_func",
    "np.random": "_mx_nd_np _npi current_context current_device is_np_default_dtype wrap_ctx_to_device_func",
    "npx": (
        "NDArray _mx_nd_npx array=np:array classproperty ndarray_from_dlpack ndarray_from_numpy "
        "ndarray_to_dlpack_for_read ndarray_to_dlpack_for_write set_module string_types with_metaclass"
    ),
    "npx.control_flow": "AttrScope Symbol _as_list _mx_nd_npx ag current_attribute dc np_ndarray set_module symbol",
    "npx.image": (
        "Augmenter BrightnessJitterAug CastAug CenterCropAug ColorJitterAug ColorNormalizeAug ContrastJitterAug "
        "CreateAugmenter CreateDetAugmenter CreateMultiRandCropAugmenter DetAugmenter DetBorrowAug "
        "DetHorizontalFlipAug DetRandomCropAug DetRandomPadAug DetRandomSelectAug ForceResizeAug HorizontalFlipAug "
        "HueJitterAug ImageDetIter ImageIter LightingAug RandomCropAug RandomGrayAug RandomOrderAug "
        "RandomSizedCropAug ResizeAug SaturationJitterAug SequentialAug center_crop color_normalize cv2 det "
        "detection fixed_crop image=image.image imdecode imread imresize imrotate io is_np_array nd numeric_types "
        "random_rotate random_size_crop recordio resize_short scale_down"
    ),
    "npx.random": "_mx_nd_npx _mx_rand _npi current_context current_device wrap_ctx_to_device_func",
    "numpy_dispatch_protocol": "mx_np",
    "numpy_op_signature": "_NP_EXT_OP_SUBMODULE_LIST _NP_OP_SUBMODULE_LIST _get_op_submodule_name mx_np mx_npx",
    "operator": (
        "NDArray _DTYPE_MX_TO_NP _DTYPE_NP_TO_MX _STORAGE_TYPE_CSR _STORAGE_TYPE_DEFAULT _STORAGE_TYPE_ID_TO_STR "
        "_STORAGE_TYPE_ROW_SPARSE _STORAGE_TYPE_STR_TO_ID _STORAGE_TYPE_UNDEFINED context is_np_array symbol"
    ),
    "optimizer.adam": (
        "NDArray adabelief_update adamw_update full maximum minimum mp_adabelief_update mp_adamw_update "
        "multi_adabelief_update multi_adamw_update multi_lamb_update multi_lans_update multi_mp_adabelief_update "
        "multi_mp_adamw_update multi_mp_lamb_update multi_mp_lans_update zeros"
    ),
    "optimizer.adaptive": "NDArray contrib maximum sparse zeros",
    "optimizer.optimizer": (
        "AdaDelta AdaGrad Adam Adamax DCASGD FTML Ftrl LAMB LARS LBSGD NAG NDArray Nadam RMSProp SGD SGLD Signum "
        "Test Updater _as_classic _flatten_list array ccSGD get_updater maximum multi_lamb_update "
        "multi_mp_lamb_update multiply normal sparse zeros"
    ),
    "optimizer.sgd": "_flatten_list array normal zeros",
    "optimizer.updater": "NDArray _as_classic is_np_array profiler_scope",
    "profiler": "_current_scope",
    "random": "Context integer_types wrap_ctx_to_device_func",
    "recordio": "cv2",
    "registry": "_REGISTRY string_types",
    "rnn": "DataBatch DataDesc DataIter load_checkpoint numeric_types save_checkpoint string_types",
    "rnn.io": "ndarray",
    "rnn.rnn_cell": (
        "BaseConvRNNCell ConvGRUCell ConvLSTMCell ConvRNNCell FusedRNNCell ModifierCell=rnn.modifiers:ModifierCell "
        "ResidualCell ZoneoutCell _cells_begin_state _cells_pack_weights "
        "_cells_state_info=rnn.older:_cells_state_info _cells_state_shape _cells_unpack_weights ndarray "
        "numeric_types string_types"
    ),
    "symbol": "_Null",
    "symbol._internal": "AttrScope NameManager _Null",
    "symbol.contrib": (
        "AttrScope _Null _as_list _flatten _regroup current_attribute symbol=symbol.symbol "
        "uniform=symbol.random:uniform"
    ),
    "symbol.image": "_Null",
    "symbol.linalg": "_Null",
    "symbol.numpy": (
        "Group Symbol _mx_np_op=symbol.numpy _sanity_check_params current_context integer_types is_np_default_dtype "
        "load_json numeric_types set_module string_types wrap_np_binary_func wrap_np_unary_func"
    ),
    "symbol.numpy.linalg": "_mx_sym_np _symbol",
    "symbol.numpy.random": "current_context is_np_default_dtype",
    "symbol.numpy_extension.random": "current_context",
    "symbol.random": "_Null _internal=symbol._internal numeric_types",
    "symbol.sparse": "_Null",
    "symbol.symbol": (
        "AttrScope Context Device Executor MXNetError NDArray _DTYPE_MX_TO_NP _DTYPE_NP_TO_MX _GRAD_REQ_MAP "
        "_SIGNED_INT32_UPPER_LIMIT _STORAGE_TYPE_STR_TO_ID _int64_enabled _internal=symbol._internal _profiler_scope "
        "current_context current_device fromjson integer_types is_np_shape load_json numeric_types op=symbol "
        "string_types"
    ),
    "test_utils": (
        "Context _STORAGE_TYPE_STR_TO_ID _features _find_max_violation _get_powerlaw_dataset_csr "
        "_get_uniform_dataset_csr _parse_aux_states _parse_location _sorted_dict _sorted_items "
        "_validate_csr_generation_inputs array current_context get_cuda_compute_capability "
        "get_max_supported_compute_capability get_rtc_compile_opts np_symbol=symbol.numpy:_Symbol ss"
    ),
    "torch": "NDArray _build_param_doc",
    "util": (
        "_CUDA_SUCCESS _MAX_VALUE_64_BIT_SIGNED_ _MAX_VALUE_64_BIT_UNSIGNED_ _MAX_VALUE_FLOAT32_REPRESENT_ "
        "_NumpyDefaultDtypeScope _np_ufunc_default_kwargs _sanity_check_params _set_np_array _set_np_array_logged "
        "_set_np_default_dtype_logged _set_np_shape_logged integer_types numeric_types"
    ),
    "visualization": "_str2tuple",
}

@cache
def _homes() -> dict[str, str]:
    """Each name of `HOMES` with its module and, after a colon, what it is called there."""
    found = {}
    for home, names in HOMES.items():
        for name in names.split():
            name, _, other = name.partition("=")
            found[name] = f"{home}{other or name}" if home.endswith(":") else home
    return found


@cache
def _held(module: str) -> dict[str, str]:
    """The names that a module holds besides its own, each with its home."""
    found = {}
    for entry in HELD.get(module, "").split():
        name, _, home = entry.partition("=")
        found[name] = home or _homes()[name]
    return found


def homes_of(module: str) -> dict[str, str]:
    """The names of the table for a module, by its name after `mxjax.`, each with its home.

    >>> homes_of("monitor")
    {'ndarray': 'nd'}
    """
    return dict(_held(module))


def resolve(module: str, name: str) -> Any:
    """What a module holds under a name of the table.

    Raises:
      KeyError: the table does not have the name there.

    >>> resolve("gluon.block", "Symbol").__name__
    'Symbol'
    """
    home, _, attribute = _held(module)[name].partition(":")
    if home[:1] == "?":
        package = home[1:]
        there = importlib.util.find_spec(package.partition(".")[0]) is not None
        return importlib.import_module(package) if there else None
    if home[:1] == "/":
        found: Any = importlib.import_module(home[1:])
    else:
        found = importlib.import_module(f"{__package__}.{home}".rstrip("."))
    return getattr(found, attribute) if attribute else found

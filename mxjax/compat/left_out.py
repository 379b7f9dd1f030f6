"""Names of MXNet's modules that mxjax leaves out, with what an error says to one who asks for them."""

from __future__ import annotations

#: What MXNet has and mxjax leaves out, by kind: why, or what serves instead, and the names. docs/exclusions.md has a
#: line for each kind.
EXCLUDED: dict[str, str] = {
    "there is no library in C here; ctypes.CDLL loads one of your own": (
        "_LIB NDArrayHandle SymbolHandle ExecutorHandle CachedOpHandle KVStoreHandle RecordIOHandle DataIterHandle "
        "ProfileHandle CudaModuleHandle CudaKernelHandle OpHandle DLPackHandle ContextHandle DatasetHandle "
        "BatchifyFunctionhandle MXCallbackList c_int_p c_handle_array _load_lib _notify_shutdown _ctypes _cy3 "
        "_ffi _global_var _api_internal api cython tvmop _ndarray_cls _np_ndarray_cls _parse_head "
        "_new_empty_handle _new_alloc_handle _new_from_shared_mem _ctype_dict _ctype_key_value _updater_wrapper "
        "_get_kvstore_server_command_type _init_kvstore_server_module _make_io_iterator "
        "_imperative_invoke _symbol_creator _KL_storage"
    ),
    "an error is a Python exception here from the beginning; mx.error.register makes classes known": (
        "_find_error_type _valid_error_name c2pyerror get_last_ffi_error"
    ),
    "functions of operators are made from mxjax/ops; mx.operator.get_all_registered_operators lists them": (
        "_generate_op_module_signature _init_np_op_module _init_op_module _init_io_module _make_ndarray_function "
        "_make_symbol_function _NP_EXT_OP_IMPLEMENTED_SET _Registry _registry "
        "numpy_op_fallback"
    ),
    "docstrings are written where the functions are": "ndarray_doc symbol_doc _numpy_op_doc",
    "mx.amp.init lets operators compute in mixed precision where they are defined, and wraps no function": (
        "_cast_symbol_NDArray _get_fun_to_wrap _get_nd_fun_to_wrap _get_np_fun_to_wrap _wrap_loss_output_functions "
        "_wrap_module_functions _wrap_symbol_functions warn_if_model_exists"
    ),
    "mx.contrib.quantization's quantize_graph, calib_graph and quantize_net do this": (
        "_calibrate_quantized_sym _quantize_params _quantize_symbol"
    ),
    "gluon.data.DataLoader and its datasets are the whole of it here: no loader in C++ takes them over": (
        "_MXThreadedDataLoader _check_mx_loader_capability ThreadedDataLoader MXBatchifyFunction MXDataset MXSampler "
        "_init_internal_batchify_function_module _init_internal_dataset_module _make_internal_batchify_functions "
        "_make_internal_datasets"
    ),
}


def why_excluded(name: str) -> str | None:
    """What to use instead of a name that is left out on purpose; None for another name."""
    return next((why for why, names in EXCLUDED.items() if name in names.split()), None)

"""Pools that make batches: of threads, and of worker processes."""

from __future__ import annotations

import multiprocessing
import multiprocessing.util
import os
import pickle
import queue
import runpy
import shutil
import sys
import threading
import time
import uuid
import weakref
from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError, Future
from typing import Any

from mxjax.errors import MXNetError, MXNetTimeoutError, MXNetTypeError, optional_import

from . import _worker
from ._host import is_array, map_tree
from ._parcel import discard, pack_for_worker, scratch_folder, unpack

_THREAD_COUNTS = ("PJRT_NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_START_PATIENCE = 300.0

_open_pools: weakref.WeakSet[Any] = weakref.WeakSet()
_threads: weakref.WeakSet[threading.Thread] = weakref.WeakSet()  # those of pools that are gone, too


class WorkerTraceback(Exception):
    """The cause of an error that was raised in a worker process: the traceback there, as text."""

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""'


def _worker_environment() -> dict[str, str]:
    """Workers leave the accelerators to this process, and make no profiles of their own."""
    from mxjax import settings

    return {
        **dict.fromkeys(_THREAD_COUNTS, str(settings.get("data.worker_threads"))),
        # OpenCV takes 0 for "as many as there are"; without threads of its own it has one.
        "OPENCV_FOR_THREADS_NUM": str(max(1, settings.get("data.opencv_threads"))),
        "MXJAX_DATA_SHM_BYTES": str(settings.get("data.shm_bytes")),
        **_given("memory.host_round_cutoff", "memory.host_round_bytes"),
        "MXJAX_DEBUG_LOG_LOADER": str(int(settings.get("debug.log_loader"))),
        "JAX_PLATFORMS": "cpu",
        **_variable("engine.device", "cpu0"),  # the parent's may be one that workers do not see
        **_variable("compat.version", settings.get("compat.version")),
        "MXJAX_PROFILER_AUTOSTART": "0",
        # loky restarts workers that grow; a dataset that fills its cache is no leak
        "LOKY_MAX_MEMORY_LEAK_SIZE": "1e15",
    }


def _fork_context(environment: dict[str, str], wants_mxjax: bool) -> Any:
    """What lets loky fork workers from a process that has imported what they need; None where that cannot be."""
    if sys.platform != "linux":  # libraries of macOS do not survive a fork
        return None
    try:
        from . import _forked
    except ImportError:  # a loky whose parts have other names
        return None
    return _forked.context(environment, wants_mxjax)


def _given(*names: str) -> dict[str, str]:
    """Options that have a value, as the variables that give it to another process."""
    from mxjax import settings

    values = {name: settings.get(name) for name in names}
    return {key: text for name, value in values.items() if value is not None
            for key, text in _variable(name, value).items()}  # fmt: skip


def _variable(name: str, value: Any) -> dict[str, str]:
    """The variable that gives an option's value to another process."""
    from mxjax import settings

    return {next(row.variable for row in settings.table() if row.name == name): str(value)}


def _at_exit() -> None:
    for pool in list(_open_pools):
        pool.close()
    forked: Any = sys.modules.get(f"{__package__}._forked")
    if forked is not None:
        forked.end_server()
    # A thread that is in XLA when Python ends takes the process down, and nobody waited for those of dropped pools.
    until = time.monotonic() + 5.0
    for thread in list(_threads):
        thread.join(max(0.0, until - time.monotonic()))


def _close_at_exit(pool: Any) -> None:
    """Close `pool` when the main thread ends, before Python waits for the threads of executors."""
    # `atexit` comes too late: loky joins its threads before that.  It asks for it anew with each
    # executor, and who asks last is called first, so this must be asked for each time, too.
    threading._register_atexit(_at_exit)  # type: ignore[attr-defined]
    if multiprocessing.parent_process() is not None:
        # A process of multiprocessing waits even before that, for the processes it started.
        multiprocessing.util.Finalize(None, _at_exit, exitpriority=100)
    _open_pools.add(pool)


def _waited(future: Future[Any], timeout: float, what: str) -> Any:
    try:
        return future.result(timeout)
    except CancelledError:
        raise MXNetError("the DataLoader's workers were closed while a batch was awaited") from None
    except TimeoutError:
        if future.done():
            raise  # the dataset's own
        raise MXNetTimeoutError(
            f"no batch from the DataLoader's {what} within {timeout} s: a transform is slow or "
            "stuck; give timeout= more seconds, or use num_workers=0 to see where it waits"
        ) from None


class ThreadPool:
    """Threads of this process that call `load(indices)`.

    They are daemons, so that one that is stuck does not keep the program from ending.
    """

    def __init__(self, load: Callable[[list[Any]], Any], workers: int) -> None:
        self.closed = False
        self._tasks: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._threads = [
            threading.Thread(
                target=_serve, args=(self._tasks, load), name=f"mxjax-loader-{number}", daemon=True
            )
            for number in range(workers)
        ]
        try:
            for thread in self._threads:
                thread.start()
            _threads.update(self._threads)
            _close_at_exit(self)
        except BaseException:  # Ctrl-C, too
            self._tell_threads()
            raise

    def submit(self, indices: list[Any], epoch: int, seed: int) -> Future[Any]:
        future: Future[Any] = Future()
        from mxjax.modes import taken

        self._tasks.put((future, indices, taken()))
        return future

    def result(self, future: Future[Any], timeout: float) -> Any:
        try:
            return _waited(future, timeout, "threads")
        except MXNetTimeoutError:
            self.close(wait=0)
            raise

    def drop(self, futures: Iterable[Future[Any]], epoch: int) -> None:
        """Forget the batches of an epoch that nobody waits for any more."""
        for future in futures:
            future.cancel()

    def close(self, wait: float = 5.0) -> None:
        """End the threads: tasks that wait are cancelled, those that run get `wait` seconds."""
        if self.closed:
            return
        self.closed = True
        try:
            while True:
                task = self._tasks.get_nowait()
                if task is not None:
                    task[0].cancel()
        except queue.Empty:
            pass
        except BaseException:
            self._tell_threads()
            raise
        self._tell_threads()
        for thread in self._threads:
            if thread is not threading.current_thread() and thread.ident is not None:
                thread.join(wait)

    def _tell_threads(self) -> None:
        for _ in self._threads:
            self._tasks.put(None)

    def __del__(self) -> None:
        if "_threads" in self.__dict__:
            self.close(wait=0)


def _serve(tasks: queue.SimpleQueue[Any], load: Callable[[list[Any]], Any]) -> None:
    from mxjax.modes import resumed

    while (task := tasks.get()) is not None:
        future, indices, modes = task
        if future.set_running_or_notify_cancel():
            try:
                resumed(modes)  # those of the thread that iterates
                batch = load(indices)
                # Run here what the batch recorded, in parallel with the main thread.
                map_tree(lambda leaf: leaf.wait_to_read() if is_array(leaf) else None, batch)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(batch)
            del future, task


def _uninterrupted(work: Callable[[], None]) -> None:
    """Do `work()` in a thread, for only the main thread hears Ctrl-C: that is raised when the work is done.

    A process whose start is interrupted is one that nobody knows of.
    """
    done: Future[None] = Future()

    def run() -> None:
        try:
            work()
            done.set_result(None)
        except BaseException as error:
            done.set_exception(error)

    thread = threading.Thread(target=run, name="mxjax-loader-start")
    try:
        thread.start()
        done.result()
    finally:
        if thread.ident is not None:
            thread.join()


class ProcessPool:
    """Worker processes that hold the dataset as it was when they started.

    They are started by loky, which neither forks (a process in which JAX runs must not) nor imports
    the main script, and they end with this object, or with this process.
    """

    def __init__(self, dataset: Any, batchify_fn: Any, workers: int) -> None:
        loky = optional_import("loky", "data")
        self.closed = False
        self._key = uuid.uuid4().hex
        self._folder = scratch_folder()
        self._executor: Any = None
        self._job: Any = None
        try:
            self._pack(dataset, batchify_fn)
            environment = _worker_environment()  # of this thread's settings
            _uninterrupted(lambda: self._start(loky, workers, environment))
        except BaseException:  # Ctrl-C, too
            _end_surely(self._executor, self._job, self._folder)
            raise
        self._finalizer = weakref.finalize(
            self, _end_behind, self._executor, self._job, self._folder
        )
        _close_at_exit(self)

    def _pack(self, dataset: Any, batchify_fn: Any) -> None:
        try:
            self._job = pack_for_worker((dataset, batchify_fn), self._folder)
        except Exception as error:
            raise MXNetTypeError(
                f"the dataset or batchify_fn cannot be sent to worker processes: {error}; open "
                "files, locks and connections where they are used, or use thread_pool=True"
            ) from error

    def _start(self, loky: Any, workers: int, environment: dict[str, str]) -> None:
        context = _fork_context(environment, self._job.wants_mxjax)
        try:
            self._start_processes(loky, workers, environment, context)
        except OSError:
            if context is None:
                raise
            _end_processes(self._executor, None, "")  # the server has ended meanwhile
            self._start_processes(loky, workers, environment, None)

    def _start_processes(
        self, loky: Any, workers: int, environment: dict[str, str], context: Any
    ) -> None:
        boot = os.path.join(os.path.dirname(__file__), "_worker_boot.py")
        self._executor = loky.ProcessPoolExecutor(
            workers,
            context=context,
            initializer=runpy.run_path if context is None else None,
            initargs=(boot, None, "__mxjax_worker__"),
            env=environment,
        )
        self._broken = loky.process_executor.BrokenProcessPool
        self._starting = [
            self._executor.submit(
                _worker.start,
                self._key,
                self._job,
                self._folder,
                workers,
                os.getpid() if context is None else context.server.pid,
                _START_PATIENCE,
            )
            for _ in range(workers)
        ]

    def submit(self, indices: list[Any], epoch: int, seed: int) -> Future[Any]:
        from mxjax.modes import taken

        try:
            return self._executor.submit(
                _worker.fetch,
                self._key,
                self._job,
                list(indices),
                epoch,
                seed,
                self._folder,
                tuple(taken()),
            )
        except (self._broken, RuntimeError) as error:
            failed: Future[Any] = Future()
            failed.set_exception(error)
            return failed

    def result(self, future: Future[Any], timeout: float) -> Any:
        try:
            # Starting (imports, opening the dataset) does not count as slow loading.
            while self._starting:
                _waited(self._starting[-1], max(timeout, _START_PATIENCE), "worker processes")
                self._starting.pop()
            done, answer = _waited(future, timeout, "worker processes")
        except self._broken as error:
            self.close()
            raise MXNetError(
                "a worker process of the DataLoader died: killed for want of memory (exit code "
                "-9), crashed in compiled code (-11), or ended by the dataset itself. Fewer "
                "workers or smaller batches need less memory; num_workers=0 shows a crash where "
                f"it happens.{_exit_codes(error)}"
            ) from error
        except BaseException:
            self.close()  # a timeout, Ctrl-C: a worker that is stuck must not keep the program
            raise
        if done:
            return unpack(answer, remove=True)
        _raise_failure(answer)

    def drop(self, futures: Iterable[Future[Any]], epoch: int) -> None:
        """Forget the batches of an epoch: workers skip them, and files of finished ones go."""
        if self.closed:
            return
        # Not by cancelling: loky's shutdown trips over futures that were cancelled while queued.
        _worker.end_epoch(self._folder, epoch)
        for future in futures:
            future.add_done_callback(_discard_result)

    def close(self, wait: bool = True) -> None:
        """Kill the workers and remove their files."""
        self.closed = True
        if self._finalizer.detach() is not None:
            _end_surely(self._executor, self._job, self._folder)


def _end_surely(executor: Any, job: Any, folder: str) -> None:
    """`_end_processes`, which a second Ctrl-C does not end: what is left is done in a thread."""
    try:
        _end_processes(executor, job, folder)
    except BaseException:
        _end_behind(executor, job, folder)
        raise


def _end_behind(executor: Any, job: Any, folder: str) -> None:
    """`_end_processes` for a pool that was collected: in a thread that holds none of loky's locks."""
    thread = threading.Thread(target=_end_processes, args=(executor, job, folder))
    try:
        thread.start()
    except RuntimeError:  # the interpreter is ending
        _end_processes(executor, job, folder)


def _end_processes(executor: Any, job: Any, folder: str) -> None:
    if executor is not None:
        calls = getattr(executor, "_call_queue", None)
        wait = not sys.is_finalizing()
        executor.shutdown(wait=wait, kill_workers=True)
        if wait and calls is not None:
            _end_feeder(calls)
    if job is not None:
        discard(job)
    shutil.rmtree(folder, ignore_errors=True)


def _end_feeder(calls: Any) -> None:
    """Wait for the thread that wrote to the queue `calls`, whose workers are dead.

    loky does not, and the thread is a daemon: where it was the last to hold the queue's semaphores
    it released them, and a program that ended meanwhile told its user that they had leaked.
    """
    calls._reader.close()  # a write to a full pipe fails now, instead of waiting for a reader
    if calls._thread is not None:
        calls._thread.join(5.0)  # a program ends, whatever becomes of the thread


def _discard_result(future: Future[Any]) -> None:
    if future.exception() is None:
        done, answer = future.result()
        if done:
            discard(answer)


def _exit_codes(error: BaseException) -> str:
    for line in str(error).splitlines():
        if "exit codes" in line:
            return " " + line.strip()
    return ""


def _raise_failure(failure: _worker.Failure) -> None:
    error: BaseException | None = None
    if failure.error is not None:
        try:
            error = pickle.loads(failure.error)
        except Exception:
            pass  # its class cannot be made here: the summary below says what it said
    if error is None:
        error = MXNetError(f"a worker process of the DataLoader failed: {failure.summary}")
    raise error from WorkerTraceback(failure.text)

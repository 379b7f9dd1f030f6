"""What a program can see of autograd, as small programs: each takes the package and returns plain
values.

tests/record/autograd.py runs them in real MXNet and keeps the answers; test_scenarios.py runs them
here.
"""

import threading


def var(mx, values=(1.0, 2.0, 3.0), req="write", dtype="float32"):
    x = mx.np.array(list(values), dtype=dtype)
    x.attach_grad(req)
    return x


def values(*arrays):
    return [None if a is None else a.asnumpy().tolist() for a in arrays]


def error(call):
    """The name of the error that ``call`` raises, None where it raises none."""
    try:
        call()
    except Exception as e:
        return type(e).__name__
    return None


def grad_before_backward(mx):
    return [values(var(mx, req=r).grad)[0] for r in ("write", "add", "null")]


def grad_without_attach(mx):
    return mx.np.ones(3).grad is None


def unknown_grad_req(mx):
    return error(lambda: mx.np.ones(3).attach_grad("nothing")) is not None


def backward_of_a_vector_starts_with_ones(mx):
    x = var(mx)
    with mx.autograd.record():
        y = x * x
    y.backward()
    return values(x.grad)


def head_gradient(mx):
    x = var(mx)
    with mx.autograd.record():
        y = x * x
    y.backward(mx.np.array([10.0, 1.0, 0.1]))
    return values(x.grad)


def several_heads(mx):
    x, out = var(mx), []
    for heads in (None, "some"):
        with mx.autograd.record():
            y, z = x * x, x * 3
        mx.autograd.backward([y, z], None if heads is None else [mx.np.ones(3) * 2, None])
        out += values(x.grad)
    return out


def head_lists_of_different_length(mx):
    x = var(mx)
    with mx.autograd.record():
        y, z = x * x, x * 3
    return error(lambda: mx.autograd.backward([y, z], [mx.np.ones(3)])) is not None


def backward_twice(mx):
    x = var(mx)
    with mx.autograd.record():
        y = x * x
    y.backward()
    return error(y.backward)


def retain_graph(mx):
    x = var(mx)
    with mx.autograd.record():
        y = x * x
    y.backward(retain_graph=True)
    y.backward()
    return [values(x.grad), error(y.backward)]


def backward_without_record(mx):
    x = var(mx)
    y = x * x
    return error(y.backward)


def backward_of_a_variable(mx):
    x = var(mx)
    x.backward()
    first = values(x.grad)
    x.backward(mx.np.array([5.0, 6.0, 7.0]))
    return first + values(x.grad)


def backward_inside_record(mx):
    x = var(mx)
    with mx.autograd.record():
        y = x * x
        y.backward()
        first = values(x.grad)
        z = x * 3
    z.backward()
    return first + values(x.grad)


def write_overwrites(mx):
    x = var(mx)
    with mx.autograd.record():
        y, z = x * x, x * 3
    y.backward()
    first = values(x.grad)
    z.backward()
    return first + values(x.grad)


def add_accumulates(mx):
    x = var(mx, req="add")
    for _ in range(3):
        with mx.autograd.record():
            y = x * x
        y.backward()
    with mx.autograd.record():
        y = x * 3
    y.backward(retain_graph=True)
    y.backward()
    return values(x.grad)


def null_takes_no_part(mx):
    x, z = var(mx, req="null"), var(mx)
    with mx.autograd.record():
        y = x * z
    y.backward()
    with mx.autograd.record():
        w = x * x
    return values(z.grad) + [error(w.backward)]


def unused_variable_keeps_its_gradient(mx):
    x, z = var(mx), var(mx)
    with mx.autograd.record():
        y = x * z
    y.backward()
    with mx.autograd.record():
        y = x * 2
    y.backward()
    return values(x.grad, z.grad)


def held_gradient_sees_the_next_one(mx):
    x = var(mx)
    g, out = x.grad, []
    for factor in (2, 3):
        with mx.autograd.record():
            y = x * factor
        y.backward()
        out += values(g, x.grad)
    g[:] = 0
    out += values(x.grad)
    x.grad[:] = 7
    return out + values(x.grad, g)


def attach_again_gives_a_new_buffer(mx):
    x = var(mx)
    with mx.autograd.record():
        y = x * x
    y.backward()
    g = x.grad
    x.attach_grad()
    return values(x.grad, g)


def drop_grad(mx):
    x = var(mx)
    x.drop_grad()
    with mx.autograd.record():
        y = x * x
    return [x.grad is None, error(y.backward)]


def attach_to_intermediate(mx):
    out = []
    for when in ("before", "after", "outside", "dropped"):
        x = var(mx)
        with mx.autograd.record():
            h = x * x
            if when in ("before", "dropped"):
                h.attach_grad()
            if when == "outside":
                mx.autograd.set_recording(False)
                h.attach_grad()
                mx.autograd.set_recording(True)
            y = h * 3
            if when == "after":
                h.attach_grad()
            if when == "dropped":
                h.drop_grad()
        y.backward()
        out.append(values(h.grad, x.grad))
    return out


def attach_after_the_computation(mx):
    x = mx.np.ones(3)
    with mx.autograd.record():
        y = x * 2
    x.attach_grad()
    return error(y.backward)


def detach_and_stop_gradient(mx):
    x, out = var(mx), []
    for cut in (lambda a: a.detach(), mx.npx.stop_gradient):
        with mx.autograd.record():
            y = cut(x * x) * x
        y.backward()
        out += values(x.grad)
    return out + [x.detach().grad is None]


def pause_cuts(mx):
    x = var(mx)
    with mx.autograd.record():
        y = x * x
        with mx.autograd.pause():
            z = x * 10
        w = y + z
    w.backward()
    return values(x.grad)


def flags(mx):
    ag = mx.autograd

    def both():
        return [ag.is_recording(), ag.is_training()]

    out = [both()]
    with ag.record():
        out.append(both())
        for scope in (ag.pause(), ag.pause(train_mode=True), ag.predict_mode(), ag.train_mode()):
            with scope:
                out.append(both())
    for scope in (ag.record(train_mode=False), ag.train_mode(), ag.predict_mode()):
        with scope:
            out.append(both())
    out.append([ag.set_recording(True), ag.set_recording(False)])
    out.append([ag.set_training(True), ag.set_training(False)])
    return out + [both()]


def an_error_ends_the_scope(mx):
    try:
        with mx.autograd.record():
            raise ValueError
    except ValueError:
        return mx.autograd.is_recording()


def recording_is_per_thread(mx):
    seen = []
    with mx.autograd.record():
        t = threading.Thread(
            target=lambda: seen.append([mx.autograd.is_recording(), mx.autograd.is_training()])
        )
        t.start()
        t.join()
    return seen


def nested_records(mx):
    x = var(mx)
    with mx.autograd.record():
        with mx.autograd.record():
            y = x * x
        z = y + x
    z.backward()
    return values(x.grad)


def grad_function(mx):
    x, z = var(mx), var(mx, (4.0, 5.0, 6.0))
    with mx.autograd.record():
        y = x * z
    first = mx.autograd.grad(y, [x, z])
    with mx.autograd.record():
        y = x * z
    second = mx.autograd.grad([y], [x, z], head_grads=[mx.np.ones(3) * 2])
    return values(*first) + values(*second) + values(x.grad)


def grad_of_one_variable_is_a_list(mx):
    x = var(mx)
    with mx.autograd.record():
        y = x * x
    return isinstance(mx.autograd.grad(y, x), list)


def grad_of_unreachable(mx):
    x, z = var(mx), var(mx)
    with mx.autograd.record():
        y = x * x
    return error(lambda: mx.autograd.grad(y, [z]))


def grad_of_unattached(mx):
    x = var(mx)
    with mx.autograd.record():
        h = x * x
        y = h * 3
    return error(lambda: mx.autograd.grad(y, [h]))


def second_order(mx):
    out = []
    for f in ("sin", "exp", "log", "tanh", "sigmoid", "sqrt", "square"):
        x = mx.nd.array([0.5, 0.7])
        x.attach_grad()
        with mx.autograd.record():
            y = getattr(mx.nd, f)(x)
            g = mx.autograd.grad(y, [x], create_graph=True, retain_graph=True)[0]
            h = g * 1
        h.backward()
        out.append(values(g, x.grad))
    return out


def mark_variables(mx):
    x, g = mx.np.array([1.0, 2.0]), mx.np.zeros(2)
    mx.autograd.mark_variables([x], [g])
    with mx.autograd.record():
        y = x * x
    y.backward()
    out = values(g, x.grad)
    mx.autograd.mark_variables([x], [g], "add")
    for _ in range(2):
        with mx.autograd.record():
            y = x * x
        y.backward()
    return out + values(g)


def in_place_on_a_recorded_array(mx):
    out = []
    for write in ("+=", "*=", "[:]", "[0]", "view"):
        for what in ("variable", "intermediate"):
            x = var(mx)

            def run(write=write, what=what, x=x):
                with mx.autograd.record():
                    h = x * 2
                    target = x if what == "variable" else h
                    if write == "+=":
                        target += 1
                    elif write == "*=":
                        target *= 2
                    elif write == "[:]":
                        target[:] = 0
                    elif write == "[0]":
                        target[0] = 5
                    else:
                        view = target[0:2]
                        view[:] = 0

            out.append(error(run))
    return out


def whole_write_into_a_constant_is_recorded(mx):
    x, out = var(mx), []
    with mx.autograd.record():
        h = mx.np.zeros(3)
        h[:] = x * x
        y = h * 2
    y.backward()
    out += values(x.grad, h)
    o = mx.np.zeros(3)
    with mx.autograd.record():
        mx.np.multiply(x, x, out=o)
        y = o * 2
    y.backward()
    return out + values(x.grad, o)


def in_place_outside_record_keeps_the_attachment(mx):
    x = var(mx)
    x += 1
    with mx.autograd.record():
        y = x * x
    y.backward()
    return values(x, x.grad)


def gradient_dtypes(mx):
    out = []
    for dtype in ("float16", "float32", "float64"):
        x = var(mx, dtype=dtype)
        with mx.autograd.record():
            y = x * x
        y.backward()
        out.append([str(x.grad.dtype), *values(x.grad)])
    x, z = var(mx), var(mx, dtype="float64")
    with mx.autograd.record():
        y = x * z
    y.backward()
    out.append([str(y.dtype), str(x.grad.dtype), str(z.grad.dtype), *values(x.grad, z.grad)])
    with mx.autograd.record():
        y = x.astype("float64") * 2
    y.backward()
    return out + [[str(x.grad.dtype), *values(x.grad)]]


def views(mx):
    x = var(mx)
    with mx.autograd.record():
        y = x[0] * 2 + x[1]
    y.backward()
    return values(x.grad) + [list(y.shape), x[0:2].grad is None]


def function(mx):
    seen = []

    class Scaled(mx.autograd.Function):
        def forward(self, a, b):
            seen.append([mx.autograd.is_recording(), mx.autograd.is_training()])
            self.save_for_backward(a, b)
            return a * b

        def backward(self, dy):
            seen.append(mx.autograd.is_recording())
            a, b = self.saved_tensors
            return dy * b * 3, dy * a

    a, b = var(mx), var(mx, (4.0, 5.0, 6.0))
    f = Scaled()
    with mx.autograd.record():
        y = f(a, b)
        z = y.sum()
    z.backward()
    return values(y, a.grad, b.grad) + seen + values(Scaled()(a, b))


def function_with_an_unused_output(mx):
    heads = []

    class Two(mx.autograd.Function):
        def forward(self, a):
            return a * 2, a * 3

        def backward(self, d1, d2):
            heads.extend(values(d1, d2))
            return d1 * 2 + d2 * 3

    a = var(mx)
    with mx.autograd.record():
        y, _ = Two()(a)
    y.backward()
    return values(a.grad) + heads


def function_is_used_once(mx):
    class Same(mx.autograd.Function):
        def forward(self, a):
            return a * 1

        def backward(self, d):
            return d

    f, a = Same(), var(mx)

    def twice():
        for _ in range(2):
            with mx.autograd.record():
                f(a)

    return error(twice) is not None


# Gradients at x = (1, 3, 2) under heads of ones: the kinks, the ties, and what has no gradient.
GRADIENTS = """np.argmax(x) | x>1 | np.floor(x) | np.round(x) | np.sign(x) | x//2
np.ceil(x)*x | (x>1)*x
np.where(x>1,x,x*10) | np.argsort(x) | npx.one_hot(x,4) | npx.topk(x,k=2) | np.sort(x) | x%2
npx.topk(x,k=2,ret_typ="value") | np.trunc(x) | np.maximum(x,2) | np.maximum(x,x) | np.minimum(2,x)
np.clip(x,1,2) | np.abs(x-1) | npx.relu(x-1) | np.max(x) | np.max(np.array([1.,1.])*x[0])
np.min(x)
np.prod(x) | x**2 | 2**x | x**x | (x-1)**2 | np.sum(x,axis=0) | x.mean() | np.linalg.norm(x)
np.cumsum(x)
np.dot(x,x) | x[1] | x[::-1] | x[[0,0]] | x[x>1] | x.reshape(3,1) | x.T | np.concatenate([x,x])
np.stack([x,x]) | np.split(x,3)[0] | np.tile(x,2) | np.expand_dims(x,0) | np.broadcast_to(x,(2,3))
np.take(x,np.array([0,0])) | np.tanh(x) | np.arctan2(x,x) | np.hypot(x,2) | np.einsum("i,i",x,x)
np.fmod(x,2) | np.diff(x) | np.flip(x) | np.roll(x,1) | np.outer(x,x) | np.isnan(x) | x.copy()
npx.erf(x) | np.full_like(x,2)*x | np.ones_like(x) | np.zeros_like(x)*x | np.mean(x,dtype="float64")
np.nan_to_num(x) | np.triu(np.outer(x,x)) | np.ldexp(x,2) | np.reciprocal(x) | np.true_divide(1,x)
np.vstack([x,x]) | npx.smooth_l1(x) | npx.gamma(x) | np.cbrt(x) | np.rint(x) | np.fix(x)
np.kron(x,x)
np.cross(x,x) | np.trace(np.outer(x,x)) | np.diag(x) | np.where(x>1,1.,0.) | np.degrees(x)
np.sqrt(x-1)
np.ravel(x) | np.squeeze(x) | np.swapaxes(np.outer(x,x),0,1) | np.rot90(np.outer(x,x)) | np.log1p(x)
x.astype("int32")*2 | np.nonzero(x)[0] | np.logical_not(x) | np.average(x)"""


def gradient(mx, expression):
    """[result dtype, gradient] of one of ``GRADIENTS``."""
    x = var(mx, (1.0, 3.0, 2.0))
    x.grad[:] = -5
    with mx.autograd.record():
        y = eval(expression, {"np": mx.np, "npx": mx.npx, "x": x})
    y.backward()
    return [str(y.dtype), *values(x.grad)]


def released_results_are_constants(mx):
    """What is taped after a backward takes the results of the released graph for constants."""
    x, w = var(mx), var(mx)
    with mx.autograd.record():
        y = x * 2
        z, before = y * 3, y * w
    z.backward()
    out = [error(before.backward)]
    with mx.autograd.record():
        after, alone = y * w, y * 5
    after.backward()
    out += [values(x.grad, w.grad), error(alone.backward), error(z.backward)]
    h = mx.np.ones(3)
    for _ in range(3):  # a state that is carried on and never detached
        with mx.autograd.record():
            h = h * w * 2
            loss = (h * h).sum()
        loss.backward()
    return [*out, values(w.grad)]


def results_whose_lengths_depend_on_numbers(mx):
    out = []
    for f in (
        lambda x: mx.np.unique(x),
        lambda x: mx.np.unique(x, return_counts=True)[1],
        lambda x: mx.np.nonzero(x)[0],
        lambda x: mx.npx.nonzero(x),
        lambda x: mx.np.flatnonzero(x),
        lambda x: mx.np.bincount(x.astype("int32"), weights=x),
        lambda x: mx.np.unique(x) * x[:2],
        lambda x: x[x > 2],
    ):
        x = var(mx, (3.0, 1.0, 3.0))
        x.grad[:] = 7
        with mx.autograd.record():
            y = f(x)
        y.backward()
        out.append(values(x.grad))
    return out


def parts_of_integers(mx):
    out = []
    for key in (slice(None, None, -1), slice(None, None, -2), slice(1, 4, 2), slice(4, 0, -1), 2):
        x = var(mx, (1, 2, 3, 4, 5), dtype="int32")
        with mx.autograd.record():
            y = x[key] * 3
        y.backward()
        out.append(values(x.grad))
    return out


def expressions():
    return [e.strip() for line in GRADIENTS.splitlines() for e in line.split(" | ")]


SCENARIOS = {
    f.__name__: f
    for f in (
        grad_before_backward,
        grad_without_attach,
        unknown_grad_req,
        backward_of_a_vector_starts_with_ones,
        head_gradient,
        several_heads,
        head_lists_of_different_length,
        backward_twice,
        retain_graph,
        backward_without_record,
        backward_of_a_variable,
        backward_inside_record,
        write_overwrites,
        add_accumulates,
        null_takes_no_part,
        unused_variable_keeps_its_gradient,
        held_gradient_sees_the_next_one,
        attach_again_gives_a_new_buffer,
        drop_grad,
        attach_to_intermediate,
        attach_after_the_computation,
        detach_and_stop_gradient,
        pause_cuts,
        flags,
        an_error_ends_the_scope,
        recording_is_per_thread,
        nested_records,
        grad_function,
        grad_of_one_variable_is_a_list,
        grad_of_unreachable,
        grad_of_unattached,
        second_order,
        mark_variables,
        in_place_on_a_recorded_array,
        whole_write_into_a_constant_is_recorded,
        in_place_outside_record_keeps_the_attachment,
        gradient_dtypes,
        views,
        function,
        function_with_an_unused_output,
        function_is_used_once,
        released_results_are_constants,
        results_whose_lengths_depend_on_numbers,
        parts_of_integers,
    )
}

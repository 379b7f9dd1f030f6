"""Records indexing: what every index reads, whether the result writes through, what every
assignment leaves.

Run with a Python that has Apache MXNet 2.0.0b1: ``python indexing.py``. Writes
``../data/indexing.json``:
``read`` has ``{index, np: outcome, nd: outcome}`` for ``x = arange(24).reshape(2, 3, 4)``, an
outcome being
``{shape, data, view}`` (``view``: does a write to the result change ``x``; null where it is empty)
or an error;
``alias`` has ``{expr, np, nd}`` with ``same`` (the very object), ``up`` (a write to the result
reaches ``x``)
and ``down`` (a write to ``x`` reaches the result);
``write`` has ``{stmt, float32: rows, int32: rows, nd: rows}`` for ``x = [[0, 1, 2], [3, 4, 5]]``.
In the expressions ``A(values, dtype='float32')`` makes an array of the kind under test, ``O`` a
NumPy array.
"""

import ast
import warnings

import mxnet as mx
import numpy as onp
from codec import error, save

warnings.simplefilter("ignore")
np, npx, nd = mx.np, mx.npx, mx.nd

READ = """0 | -1 | 2 | 7 | -3 | 1:2 | 0:1 | 0:2 | -1: | -2: | 5: | 2:1 | 0:0 | ::1 | ::2
0:1:2 | 1::5
::-1 | 3:0:-1 | 1:0:-1 | ... | None | () | slice(0,1) | slice(None) | slice(0,2,0) | slice(1.,2.)
0,1 | 0,-1,2 | 0,9 | -1,-1 | 0,0,0,0 | 0,:,1 | :,1 | :,:,1 | :,0:3 | :,1:3 | :,0:0 | 1:,::2,::-1
0:1,1 | 0:1,1:2 | 1:2,0:2 | 0,1:3 | 0,0:3:1 | 0,1:3,: | 0,1:2,1:3 | 0,1,1:3 | 0,1,1:4:2 | 0,1,2:3
0:2,0:3,0:4 | 1,0:3:2 | 0:1,0:1,0:1 | :1,:1,2 | 0:1,::-1 | 0,2:1:-1
...,0 | 0,... | ...,1,: | None,0 | :,None | 0,None,1 | 1,2,None,3 | ...,None | None,...,None
[0,1] | [1] | [] | [0,-1] | [0,5] | (0,1), | [0,1],[1,2] | [0,1],1 | 0,[0,2] | :,[0,2]
[0,1],:,[0,1]
:,[0,1],[0,1] | [[0,1],[1,0]] | range(2)
A([0,1]) | A([1.,0.]) | A([0,1],dtype='int32') | A([0,-1],dtype='int64') | A([0,1],dtype='uint8')
A([0,1],dtype='int8') | A([],dtype='int32') | A(1,dtype='int32') | A(1) | O([0,1]) | O([0.,1.])
onp.int64(1) | A([0,1],dtype='int32'),A([1,2],dtype='int32') | A([0,1],dtype='int32'),O([1,2])
A([0,1],dtype='float32'),0 | A([True,False]) | A([True,False],dtype=bool)
A([False,False],dtype=bool)
O([True,False]) | [True,False] | True | False | x>5 | (x>5)[0] | x[:,:,0]>5
:,A([True,False,True],dtype=bool) | 0,A([True,False,True],dtype=bool) | A([True,False],dtype=bool),0
1.0 | 1.5 | 'a' | 0:1:5, | 1::-5, | 2::-5 | 2::-5,
True,1 | 1,True | False,1 | 1,False | None,True,0 | True,None,0 | ...,True,0 | 0,...,True
True,O([1,0]) | A([1,0],dtype='int32'),True,0 | True, | False, | True,:,1 | ...,False | True,[0,1],1
True,A([True,False],dtype=bool) | 5,True"""
ALIAS = """x.reshape(4,6) | x.reshape((4,6)) | x.reshape(-1) | np.reshape(x,(4,6))
npx.reshape(x,(4,6))
nd.reshape(x,(4,6)) | x.reshape_view((4,6)) | x.transpose() | x.T | np.transpose(x,(0,1,2))
x.swapaxes(0,1) | x.expand_dims(0) | np.expand_dims(x,0) | x.squeeze() | np.squeeze(x[0:1])
x.flatten()
np.ravel(x) | x.detach() | x.copy() | copy.copy(x) | copy.deepcopy(x) | x.astype('float32')
x.astype('float32',copy=False) | x.as_in_ctx(mx.cpu()) | x.as_in_context(mx.cpu())
x.to_device(mx.cpu())
x.copyto(mx.cpu()) | x.as_nd_ndarray() | x.as_np_ndarray() | np.array(x) | np.asarray(x)
nd.array(x)
npx.stop_gradient(x) | np.atleast_1d(x) | x.broadcast_to((2,3,4)) | np.broadcast_arrays(x,x)[0]
np.split(x,2)[0] | np.concatenate([x]) | np.positive(x) | +x | abs(x) | np.nan_to_num(x,copy=False)
nd.identity(x) | x.round() | x.slice_axis(0,0,1) | x.zeros_like()"""
WRITE = """x[:]=5 | x[:]=1.5 | x[:]=True | x[:]=A([1,2,3]) | x[:]=O([1,2,3]) | x[:]=[1,2,3]
x[:]=(1,2,3)
x[:]=[[1],[2]] | x[:]=A([[1],[2]]) | x[:]=O([[1],[2]],'float64') | x[:]=A([1,2]) | x[:]=O([1,2])
x[:]=A([[[1,2,3]]]) | x[:]=A([[[1,2,3]],[[1,2,3]]]) | x[:]='a' | x[:]=x | x[:]=x[0] | x[0]=x[1]
x[0]=9 | x[-1]=9 | x[5]=9 | x[0,1]=9 | x[0][1]=9 | x[0]=A([9,8,7]) | x[0]=O([9,8,7]) | x[0]=[9,8,7]
x[0]=A([[9,8,7]]) | x[0]=A([9,8]) | x[0]=A([9]) | x[0]=A(9) | x[0,0]=A([9]) | x[0,0]=A(9)
x[0,0]=onp.float64(9) | x[...]=9 | x[None]=9 | x[()]=9 | x[:,1]=9 | x[:,1]=A([8,9])
x[:,1]=A([[8],[9]])
x[:,1:]=A([[8],[9]]) | x[:,::2]=9 | x[:,::-1]=A([1,2,3]) | x[::-1]=A([[1,2,3],[4,5,6]])
x[:,::-2]=A([[1,2],[3,4]]) | x[[0,1]]=9 | x[[1,0]]=A([[1,2,3],[4,5,6]]) | x[[0,1],[1,2]]=9
x[[0,1],[1,2]]=A([8,9]) | x[[0,1],[1,2]]=O([8,9]) | x[:,[0,2]]=A([8,9])
x[A([0,1],dtype='int32')]=9
x[A([0,1])]=9 | x[O([0,1])]=9 | x[x>2]=9 | x[x>2]=A([7]) | x[x>2]=A([7,8,9]) | x[x>2]=A([7,8])
x[x>100]=9 | x[A([True,False],dtype=bool)]=9 | x[A([True,False],dtype=bool)]=A([7,8,9])
x[A([True,False],dtype=bool),1]=9 | x[:,A([True,False,True],dtype=bool)]=9 | x[True]=9
x[1:1]=9 | x[[]]=9
x[0:1]=A([[1,2,3],[4,5,6]]) | x[0:1,1:]=[[8,9]] | x[0]=1.7 | x[0,:]=A([1.7,2.7,3.7])
x[:]=A([[1.7,2.7,3.7],[1,2,3]]) | x[:]=x.T | x[1.0]=9 | x['a']=9
x[True,1]=9 | x[1,False]=9 | x[True,1]=A([[1,2,3]]) | x[True,1]=A([1,2,3]) | x[True,[1,0]]=9
x[False,[1,0]]=9 | x[False,1]=A([1,2]) | x[...,True]=A([[[1,2,3],[4,5,6]]]) | x[True,5]=9"""


def split(text):
    return [s.strip() for line in text.splitlines() for s in line.split(" | ")]


def make(kind, values, dtype="float32"):
    return (np if kind == "np" else nd).array(values, dtype=dtype)


def scope(kind, x):
    import copy

    return {
        "A": lambda v, dtype="float32": make(kind, v, dtype),
        "O": onp.array,
        "x": x,
        "np": np,
        "nd": nd,
        "npx": npx,
        "mx": mx,
        "onp": onp,
        "copy": copy,
    }


def base(kind):
    return make(kind, onp.arange(24.0).reshape(2, 3, 4))


def poke(r, value):
    """Writes into every element; a 0-d np array takes the empty tuple only."""
    if r.ndim:
        r[:] = value
    else:
        r[()] = value


def read(kind, index):
    x = base(kind)
    try:
        r = eval(f"x[{index}]", scope(kind, x))
        out = {"shape": list(r.shape), "data": r.asnumpy().ravel().tolist(), "view": None}
        if r.size:
            poke(r, -99)
            out["view"] = bool((x.asnumpy() == -99).any())
        return out
    except Exception as e:
        return error(e)


def alias(kind, expr):
    x = base(kind)
    try:
        r = eval(expr, scope(kind, x))
        out = {
            "type": "np" if isinstance(r, np.ndarray) else "nd",
            "shape": list(r.shape),
            "same": r is x,
        }
        x[0, 0, 0] = -77
        out["down"] = bool((r.asnumpy() == -77).any())
        poke(r, -99)
        out["up"] = bool((x.asnumpy() == -99).any())
        return out
    except Exception as e:
        return error(e)


class Key:
    """``Key()[anything]`` is the key itself."""

    def __getitem__(self, key):
        return key


def assign(stmt, names):
    """Runs ``target[key]=value`` as it stands."""
    tree = ast.parse(stmt).body[0]
    target = tree.targets[0]
    names["K"] = Key()
    place = ast.unparse(target.value)
    key = eval("K" + ast.unparse(target)[len(place) :], names)
    place, value = eval(place, names), eval(ast.unparse(tree.value), names)
    place[key] = value


def write(kind, dtype, stmt):
    x = make(kind, [[0, 1, 2], [3, 4, 5]], dtype)
    try:
        assign(stmt, scope(kind, x))
        return onp.round(x.asnumpy().astype("float64"), 4).tolist()
    except Exception as e:
        return error(e)


def main():
    save(
        "indexing.json",
        {
            "read": [{"index": i, "np": read("np", i), "nd": read("nd", i)} for i in split(READ)],
            "alias": [
                {"expr": e, "np": alias("np", e), "nd": alias("nd", e)} for e in split(ALIAS)
            ],
            "write": [
                {
                    "stmt": s,
                    "float32": write("np", "float32", s),
                    "int32": write("np", "int32", s),
                    "nd": write("nd", "float32", s),
                }
                for s in split(WRITE)
            ],
        },
    )


if __name__ == "__main__":
    main()

"""Records the array as an object: printing, conversion, protocols, attributes, and its refusals.

Run with a Python that has Apache MXNet 2.0.0b1: ``python objects.py``. Writes
``../data/objects.json``: ``{expression: answer}``, an answer being ``[type, repr]`` or
``{"error", "text"}``. Arrays answer with their own repr, so dtype and layout are compared too.
"""

import copy
import pickle
import warnings

import mxnet as mx
import numpy as onp
from codec import error, save

warnings.simplefilter("ignore")

EXPRESSIONS = r"""
repr(np.array([1.,2.])) | str(np.array([1.,2.])) | repr(np.array([1,2],dtype='int32'))
repr(np.array([1,2],dtype='int64')) | repr(np.array([1,2],dtype='uint8'))
repr(np.array([1.,2.],dtype='float64')) | repr(np.array([1.,2.],dtype='float16'))
repr(np.array([True,False],dtype=bool)) | repr(np.array(1.5)) | repr(np.array(1,dtype='int32'))
str(np.array(1.5)) | repr(np.zeros((0,3))) | repr(np.zeros((0,)))
repr(np.zeros((0,),dtype='int32'))
repr(np.zeros((2,0),dtype='int32')) | repr(np.ones((2,2))) | repr(np.arange(2000))
str(np.ones((2,2))) | repr(np.ones((40,40))) | repr(np.array([1e-10,1e10]))
repr(np.array([float('nan'),float('inf')])) | repr(np.arange(6).reshape(1,2,3))
repr(nd.array([1.,2.])) | str(nd.array([1.,2.])) | repr(nd.array([1,2],dtype='int32'))
repr(nd.ones((2,3))) | repr(nd.arange(2000)) | repr(nd.array(1.5))
"%s" % np.array([1.]) | "{}".format(np.array([1.])) | "{:.2f}".format(np.array(1.5))
"{:.2f}".format(np.array([1.5])) | "%.2f" % np.array(1.5) | "%d" % np.array(3)
len(np.ones((3,2))) | len(np.array(1)) | len(nd.ones((3,2)))
bool(np.array(1)) | bool(np.array([1])) | bool(np.array([1,2])) | bool(np.array([0.]))
bool(nd.array([1,2])) | bool(nd.array([0])) | int(np.array(1.7)) | int(np.array([1.7]))
int(np.array([1,2])) | float(np.array(1.5)) | float(np.array([1.5])) | float(np.array([1,2]))
complex(np.array(1.)) | np.array(3,dtype='int32').__index__() | [1,2,3][np.array(1,dtype='int32')]
[1,2,3][np.array(1)] | [1,2,3][np.array([1],dtype='int32')] | range(np.array(3,dtype='int32'))
list(np.array([1.,2.])) | list(np.ones((2,2))) | list(nd.array([1.,2.]))
1. in np.array([1.,2.]) | 3. in np.array([1.,2.]) | np.array([1.,2.]).item() | np.array(1.5).item()
np.array([1.,2.]).item(1) | np.array([1.,2.]).tolist() | np.array(1.).tolist()
np.array([[1,2]],dtype='int32').tolist() | nd.array([1.]).asscalar() | nd.array([1.,2.]).asscalar()
np.ones(2).device | np.ones(2).ctx | np.ones(2).context | nd.ones(2).context
str(np.ones(2).device)
np.ones(2).stype | nd.ones(2).stype | np.ones((2,3)).T.shape | np.ones((2,3)).size
np.ones((2,3)).ndim
np.ones(2).dtype | np.ones(2).dtype == 'float32' | np.ones(2).dtype == np.float32 | nd.ones(2).dtype
hash(np.ones(2)) | np.ones(2) == np.ones(2) | nd.ones(2) == nd.ones(2) | (np.ones(2) == 1).dtype
nd.ones(2) + np.ones(2) | isinstance(np.ones(2), nd.NDArray) | isinstance(nd.ones(2), np.ndarray)
pickle.loads(pickle.dumps(np.array([1,2],dtype='int32')))
pickle.loads(pickle.dumps(nd.array([1,2],dtype='int32'))) | copy.deepcopy(np.array([1.,2.]))
onp.mean(np.ones(2)) | onp.concatenate([np.ones(2),np.ones(2)]) | onp.sqrt(np.ones(2))
onp.linalg.norm(np.ones(2)) | onp.stack([np.ones(2)]) | onp.float32(2)*np.ones(2)
onp.ones(2)*np.ones(2) | np.ones(2)*onp.ones(2) | onp.float64(2)*np.array([1.])
np.array([1])+onp.int64(2)
sum(np.ones(3)) | max(np.array([1.,3.,2.])) | sorted(np.array([3.,1.,2.])) | abs(np.array([-1.]))
round(np.array(1.567),1) | -nd.array([1.]) | ~np.array([True,False],dtype=bool)
np.array([3.])@np.array([2.]) | np.ones(2).asnumpy() | np.ones(2).asnumpy().flags.writeable
np.ones(2).as_nd_ndarray() | nd.ones(2).as_np_ndarray() | np.ones(2).copyto(np.zeros(2))
np.ones(2).copyto(np.zeros(3)) | np.ones(2).copyto(np.zeros(2,dtype='int32'))
np.ones((2,3)).any() | np.ones((2,3)).all() | np.ones((2,3)).nonzero()
nd.ones((2,3)).sum() | nd.ones((2,3)).norm() | nd.ones((2,3)).argmax(axis=1)
nd.ones((2,3)).sum(axis=0,keepdims=True) | nd.ones((2,3)).reshape((0,-1)).shape
mx.cpu() == mx.cpu(0) | mx.cpu() | str(mx.cpu(1)) | repr(mx.gpu(0)) | mx.Device('cpu',1)
mx.cpu(0).device_type | mx.cpu(0).device_typeid | mx.gpu(1).device_typeid | mx.cpu(0).device_id
hash(mx.cpu(0))==hash(mx.cpu()) | mx.current_device() | mx.device.current_device()
mx.Device('xpu') | mx.npx.cpu(0) | mx.npx.current_device() | mx.npx.is_np_array()
mx.util.is_np_array() | mx.util.is_np_shape() | mx.npx.is_np_default_dtype()
np.pi | np.newaxis | np.inf | np.float32 | np.int64 | np.bool_ | np.dtype('float32')
np.array(onp.array([1,2],'int32')) | np.array(onp.float64(1)) | np.array(onp.int64(1)) | np.array(1)
np.array([onp.ones(2,'int32')]) | np.array([np.array(1), np.array(2)]) | np.array(range(3))
np.array([1,2],dtype=int) | np.array([1,2],dtype=float) | np.array([1,2],dtype=bool)
np.array([1,2],dtype='nothing') | np.array('abc') | np.array([[1],[1,2]])
np.zeros((2,),dtype=float)
np.zeros((2,-1)) | np.full((2,),1) | np.full((2,),1.5) | np.full((2,),True)
np.full_like(np.ones(2),3)
np.asarray([1,2]) | np.indices((1,2)) | np.linspace(0,1,3,retstep=True) | nd.array(onp.array([1,2]))
nd.array(onp.array([1,2],'int32')) | nd.array(nd.array([1,2],dtype='int32')) | nd.array([True])
np.array([1.])+'a' | np.sqrt(4) | np.add(1,2) | np.array([1,2],dtype='int32')+1.5
np.array([200],dtype='uint8')+100 | np.array([7.,-7.])//2 | np.array([7,-7],dtype='int32')%3
np.array([1.,0.])/0 | np.mean(np.array([1,2],dtype='float64'))
np.sum(np.array([200,100],dtype='uint8'))
np.array([1.5,-1.5]).astype('int32') | np.array([1.5,0.,float('nan')]).astype(bool)
np.random.uniform().shape | np.random.uniform(size=2).dtype | np.random.randint(5).dtype
np.random.uniform(0,1,(2,),dtype='float64').dtype | np.random.randint(0,5,(2,),dtype='int32').dtype
np.random.normal(np.zeros((2,1)),np.ones(3)).shape | np.random.randn(2,3).shape
np.random.rand().shape
np.random.choice(5,(2,)).dtype | np.random.multinomial(5,[.5,.5]).dtype
np.random.gamma(1.,size=2).dtype
nd.random.uniform().shape | nd.random.randint(0,3,shape=(2,)).dtype
nd.random.uniform(shape=2).shape
npx.random.bernoulli(0.5,size=(2,)).dtype
npx.random.normal_n(np.zeros(2),1.,batch_shape=(3,)).shape
np.ones((2,3)).reshape(7) | np.ones((2,3)).reshape((3,2),order='F') | np.ones((2,3)).nothing
np.nothing | npx.nothing | npx.softmax(np.ones(2),nothing=1) | nd.softmax(nd.ones(2),nothing=1)
np.ones(2,device='nowhere') | np.dot(np.ones((2,3)),np.ones((2,3))) | np.sum(np.ones((2,3)),axis=2)
"""


def answer(expression):
    names = {
        "mx": mx,
        "np": mx.np,
        "npx": mx.npx,
        "nd": mx.nd,
        "onp": onp,
        "copy": copy,
        "pickle": pickle,
    }
    try:
        r = eval(expression, names)
        return [type(r).__name__, repr(r)]
    except Exception as e:
        return error(e)


def main():
    todo = [e.strip() for line in EXPRESSIONS.strip().splitlines() for e in line.split(" | ")]
    save("objects.json", {e: answer(e) for e in todo})


if __name__ == "__main__":
    main()

"""Numbers of types, as torch_npu.float8_e8m0fnu: what operators take for dst_type, x_dtype and the like beside torch's own types.

They are plain integers, 256 and the number of the type in the ABI, because some of these types have no torch.dtype.
"""

_ABI = {
    "float32": 0, "float16": 1, "int8": 2, "int32": 3, "uint8": 4, "int16": 6, "uint16": 7, "uint32": 8, "int64": 9, "uint64": 10,
    "float64": 11, "bool": 12, "string": 13, "complex64": 16, "complex128": 17, "bfloat16": 27, "int4": 29, "uint1": 30, "complex32": 33,
    "hifloat8": 34, "float8_e5m2": 35, "float8_e4m3fn": 36, "float8_e8m0fnu": 37, "float6_e3m2": 38, "float6_e2m3": 39,
    "float4_e2m1fn_x2": 40, "float4_e1m2fn_x2": 41,
}  # fmt: skip
NUMBERS = {name: 256 + number for name, number in _ABI.items()}

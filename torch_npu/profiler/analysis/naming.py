"""How MindStudio's tools know things: types of kernels, names of collectives, times as text."""

_PRODUCTS = {
    "Mm": "MatMul", "Addmm": "MatMul", "Matmul": "MatMul", "MatmulWeightNz": "MatMul", "Mv": "MatMul", "Addmv": "MatMul", "Addr": "MatMul",
    "Baddbmm": "BatchMatMul", "Addbmm": "BatchMatMul", "BatchMatMul": "BatchMatMul", "Linear": "MatMul",
    "Convolution": "Conv2D", "ConvolutionBackward": "Conv2DBackprop",
}
_COLLECTIVES = {
    "all_reduce": "allReduce", "broadcast": "broadcast", "all_gather": "allGather", "_all_gather_base": "allGather",
    "reduce_scatter": "reduceScatter", "_reduce_scatter_base": "reduceScatter", "reduce": "reduce", "all_to_all": "alltoall",
    "all_to_all_base": "alltoall", "gather": "gather", "scatter": "scatter", "barrier": "allReduce", "send": "send", "recv": "receive",
    "coalesced": "batchSendRecv",
}
POINT_TO_POINT = {"send", "receive", "batchSendRecv"}
METRIC_COLUMNS = [
    "aicore_time(us)", "aic_total_cycles", "aic_mac_time(us)", "aic_mac_ratio", "aic_scalar_time(us)", "aic_scalar_ratio",
    "aic_mte1_time(us)", "aic_mte1_ratio", "aic_mte2_time(us)", "aic_mte2_ratio", "aic_fixpipe_time(us)", "aic_fixpipe_ratio",
    "aic_icache_miss_rate", "aiv_time(us)", "aiv_total_cycles", "aiv_vec_time(us)", "aiv_vec_ratio", "aiv_scalar_time(us)",
    "aiv_scalar_ratio", "aiv_mte2_time(us)", "aiv_mte2_ratio", "aiv_mte3_time(us)", "aiv_mte3_ratio", "aiv_icache_miss_rate",
    "cube_utilization(%)",
]
TASK_TYPES = {"kernel": "AI_CORE", "copy": "MEMCPY_ASYNC", "collective": "COMMUNICATION", "graph": "MODEL_EXECUTE"}
NOT_KNOWN = "N/A"


def kernel_type(launch) -> str:
    """aclnnMm -> MatMul: the tools look for products, convolutions and attention by these words."""
    if launch.kind == "collective":
        return f"hcom_{collective(launch.name)}_"
    if launch.kind == "copy":
        return "MemcpyAsync"
    if launch.kind == "graph":
        return "ModelExecute"
    plain = launch.name.removeprefix("aclnn").removeprefix("softnpu").removeprefix("Inplace")
    return _PRODUCTS.get(plain, plain)


def collective(title: str) -> str:
    """hccl:all_reduce -> allReduce"""
    word = title.partition(":")[2] or title
    return _COLLECTIVES.get(word, word.strip("_"))


def group_number(group: str) -> str:
    """What the tools call a group: its communicator's name as a number of two hashes."""
    def hashed(text: str, prime: int) -> int:
        value = 0
        for character in text.encode():
            value = (value * prime + character) & 0xFFFFFFFF
        return value

    return str(hashed(group, 29) << 32 | hashed(group, 131))


def collective_names(launches) -> dict[int, str]:
    """hcom_allReduce__<end of the group>_<number>_1, by correlation; numbered in each group in the order of launching."""
    counts: dict[str, int] = {}
    names = {}
    for launch in sorted((entry for entry in launches if entry.kind == "collective"), key=lambda entry: entry.correlation):
        number = counts[launch.detail] = counts.get(launch.detail, -1) + 1
        names[launch.correlation] = f"{kernel_type(launch)}_{group_number(launch.detail)[-3:]}_{number}_1"
    return names


def microseconds(nanoseconds: int) -> str:
    """With all three decimals: events of two files are matched by it."""
    sign, nanoseconds = ("-", -nanoseconds) if nanoseconds < 0 else ("", nanoseconds)
    return f"{sign}{nanoseconds // 1000}.{nanoseconds % 1000:03d}"

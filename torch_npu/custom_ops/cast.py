"""Casts of type, and small operators on one tensor."""


def npu_dtype_cast_(self, src):
    return self.copy_(src)


def copy_memory_(self, src, non_blocking=False):
    return self.copy_(src, non_blocking)


def one_(self):
    return self.fill_(1)

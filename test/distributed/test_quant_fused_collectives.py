"""Quantised and grouped products fused with collectives. The bodies are in quant_fused_cases.py and run in the ranks."""

import pytest
import quant_fused_cases as cases


@pytest.mark.parametrize("name", ["all_gather_quant", "reduce_scatter_quant", "base_forms", "all_reduce_quant", "all_to_all_products",
                                  "all_to_all_quant", "gmm_all_to_all", "gmm_with_another_way_of_sending", "quant_groups", "barrier"])
def test_case(world, name):
    world.run(getattr(cases, name))


def test_bad_arguments_are_named(pair):
    for messages in pair.run(cases.refused):
        for message, expected in zip(messages, [
            "y_dtype is missing", "x2_scale is missing", "belong to int8, float8 and hifloat8", "does not have the rows of each of 2 ranks",
            "4 rows of input do not divide among 3 ranks", "does not support amax_output", "does not support float4",
            "x1 has 12 columns of all ranks, x2 6 rows", "3 columns of x2 do not divide among 2 ranks", "dequant_scale is missing",
            "send_counts add up to 2, gmm_x has 4 rows", "does not have the rows of each of 2 ranks",
        ], strict=True):
            assert expected in message

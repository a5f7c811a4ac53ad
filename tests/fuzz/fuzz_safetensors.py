import atheris

with atheris.instrument_imports(include=["oomph"]):
    from oomph.sources import safetensors

from common import mutate_json, run

SEEDS = [
    b'{"__metadata__":{"format":"pt"},"a":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,12]},'
    b'"b":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[12,16]}}',
    b'{"a":{"dtype":"F4","shape":[],"data_offsets":[0,0]},"\\u0061":{"dtype":"U8","shape":[-1],"data_offsets":[1,0]}}',
    b'{"metadata":{"total_size":16},"weight_map":{"a":"model-00001-of-00002.safetensors"}}',
]


def one(data: bytes) -> None:
    size = 8 + len(data) + (data[0] if data else 0)
    try:
        safetensors.parse_index(data, "index.json")
    finally:
        safetensors.parse_header(data, size, "model.safetensors")


if __name__ == "__main__":
    run(one, SEEDS, mutate_json)

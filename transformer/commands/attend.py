r"""Write the attention weights of all heads of a trained run in some sentences, as JSON.

    python -m transformer attend --run results/demo/runs/en-de/base/1 --text resources/corpora/grammar-test.en \
        --count 6 --longest 24 --figures '{"figure5": {"text": "The dog sleeps."}}' --output attention.json
"""

import json
import os
from pathlib import Path

from transformer.commandline import json_object, positive, stage_parser
from transformer.evaluation.attention import attention
from transformer.files import replacing


def main(argv: list[str] | None = None) -> None:
    """Choose sentences, translate them, and write the weights of all heads."""
    parser = stage_parser("attend", __doc__)
    parser.add_argument("--run", required=True, type=Path, help="folder of a trained run")
    parser.add_argument("--weights", type=Path, metavar="FILE", help="RUN/average.safetensors if not given")
    parser.add_argument(
        "--figures", type=json_object, default={}, metavar="JSON", help="by name of figure: text, and from and to"
    )
    parser.add_argument("--text", required=True, type=Path, metavar="FILE", help="more sentences, one a line")
    parser.add_argument("--count", required=True, type=int, help="how many of them")
    parser.add_argument("--longest", required=True, type=int, help="tokens that one of them has at most")
    parser.add_argument("--output", required=True, type=Path, metavar="FILE", help="the JSON to write")
    parser.add_argument("--threads", type=positive, default=os.cpu_count(), help="processor threads; all if not given")
    args = parser.parse_args(argv)
    import torch  # takes seconds, and --help does not need it

    torch.set_num_threads(args.threads)
    content = attention(args, args)
    with replacing(args.output) as file:
        json.dump(content, file, ensure_ascii=False, separators=(",", ":"))
    print(f"{args.output}: {len(content['sentences'])} sentences, {args.output.stat().st_size:,} bytes")

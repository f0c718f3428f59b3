"""Where examples come from: public data sets as they are published, and episodes of the own worlds."""

from __future__ import annotations

from brace.training.erecap.sources.episodes import (
    alfred_records,
    babyai_records,
    multi_agent_records,
    teach_records,
)
from brace.training.erecap.sources.source import Record, Source
from brace.training.erecap.sources.texts import (
    instruct_records,
    key_records,
    multi_news_records,
    niah_records,
)
from brace.training.erecap.sources.world_logs import world_records

__all__ = ["SOURCES", "Record", "Source"]

_ALL = (
    Source(
        "alpaca",
        "instruct/alpaca",
        "CC BY-NC 4.0",
        False,
        "alpaca_data.json of https://github.com/tatsu-lab/stanford_alpaca",
        instruct_records,
    ),
    Source(
        "dolly",
        "instruct/dolly",
        "CC BY-SA 3.0",
        True,
        "databricks-dolly-15k.jsonl of https://huggingface.co/datasets/databricks/databricks-dolly-15k",
        instruct_records,
    ),
    Source(
        "self_instruct",
        "instruct/self_instruct",
        "Apache-2.0",
        True,
        "seed_tasks.jsonl and user_oriented_instructions.jsonl of https://github.com/yizhongw/self-instruct",
        instruct_records,
    ),
    Source(
        "alfred",
        "alfred",
        "MIT",
        True,
        "json_2.1.0 of https://github.com/askforalfred/alfred",
        alfred_records,
    ),
    Source(
        "teach",
        "teach",
        "CDLA-Sharing-1.0",
        True,
        "edh_instances of https://github.com/alexa/teach, or train_dh.csv of https://github.com/Nid989/TEACh_EDH",
        teach_records,
    ),
    Source(
        "babyai_runs",
        "babyai_textworld_runs",
        "MIT",
        True,
        "submissions/LLM of https://github.com/balrog-ai/experiments",
        babyai_records,
    ),
    Source(
        "multi_agent",
        "multi_agent",
        "MIT",
        True,
        "SAR/baselines/results/llamar of https://github.com/nsidn98/LLaMAR",
        multi_agent_records,
    ),
    Source(
        "multi_news",
        "longctx/longbench",
        "MIT",
        True,
        "multi_news.jsonl of https://huggingface.co/datasets/THUDM/LongBench",
        multi_news_records,
    ),
    Source(
        "niah_multikey_3",
        "longctx/ruler",
        "Apache-2.0",
        True,
        "what the generator of https://github.com/NVIDIA/RULER writes for niah_multikey_3",
        niah_records,
    ),
    Source("keys", ".", "that of brace", True, "nowhere: it is made up", key_records),
    Source(
        "worlds",
        ".",
        "that of brace",
        True,
        "your own episodes: brace planner data babyai-v1 drones-v1 --logs FOLDER",
        world_records,
    ),
)

SOURCES: dict[str, Source] = {source.name: source for source in _ALL}

"""`brace erecap`: train predictors that know what a model needs of a context."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

app = typer.Typer(help="E-RECAP predictors: training.", no_args_is_help=True)


@app.command()
def train(
    model: Annotated[str, typer.Argument(help="A model's folder, smollm2, or embedded.")],
    data: Annotated[Path, typer.Option("--data", help="The root of the data, or of recorded logs.")],
    mixture: Annotated[str, typer.Option("--mixture", "-m", help="A named mixture of data.")] = "permissive",
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Labels, curve, predictor and card go here.")
    ] = Path("runs/erecap"),
    labels: Annotated[
        str, typer.Option(help="saliency, attention, counterfactual or next-action.")
    ] = "saliency",
    lines: Annotated[
        bool, typer.Option("--lines", help="Rank whole lines, for cutting text, not tokens in the model.")
    ] = False,
    examples: Annotated[int, typer.Option("--examples", "-n", min=1, help="Texts to learn from.")] = 2000,
    most_tokens: Annotated[int, typer.Option(help="The longest of them.")] = 1024,
    steps: Annotated[int, typer.Option(min=1, help="Steps of fitting.")] = 1500,
    language: Annotated[float, typer.Option(help="The weight of L_L.")] = 1.0,
    match: Annotated[float, typer.Option(help="λ1, the weight of L_M.")] = 1.0,
    ranking: Annotated[float, typer.Option(help="λ2, the weight of L_R.")] = 1.0,
    batch_tokens: Annotated[int, typer.Option(help="Tokens in a batch: as many as memory allows.")] = 16_384,
) -> None:
    """Label what each token is worth, fit a predictor, check it on held-out texts. Ctrl-C, and later go on.

    [dim]brace erecap train smollm2 --data data --mixture permissive[/]
    [dim]brace erecap train embedded --data runs/planner/logs --mixture worlds --most-tokens 4096[/]
    [dim]brace erecap train embedded --data runs/planner/logs --mixture worlds --most-tokens 4096 --lines[/]
    """
    import torch  # noqa: PLC0415 - an extra

    from brace.erecap.models import load_model  # noqa: PLC0415
    from brace.planners.local import EMBEDDED  # noqa: PLC0415
    from brace.training.erecap.fitting import Recipe  # noqa: PLC0415
    from brace.training.erecap.making import CARD, Job, make_predictor  # noqa: PLC0415

    fitting = Recipe(steps=steps, language=language, match=match, ranking=ranking, batch_tokens=batch_tokens)
    job = Job(mixture, data, examples, most_tokens, labels, lines, min(48, examples), fitting)
    on_gpu = torch.cuda.is_available()
    loaded, tokenizer = load_model(
        EMBEDDED if model == "embedded" else model, torch.bfloat16 if on_gpu else torch.float32
    )
    if on_gpu:
        loaded = loaded.to("cuda")
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bars:
        tasks = {}

        def tell(what: str, done: int, of: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=of)
            bars.update(tasks[what], completed=done)

        make_predictor(loaded, tokenizer, job, out, tell)
    Console().print(f"predictor and card: {out / CARD}")

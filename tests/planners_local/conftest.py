"""The tiny model's folder, made once a session."""

from __future__ import annotations

from pathlib import Path

import pytest
from planners_local_kit import byte_level_tokenizer, save_tiny


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Without a chat template."""
    return save_tiny(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="session")
def chat_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With one."""
    return save_tiny(tmp_path_factory.mktemp("tiny-chat"), byte_level_tokenizer(chat=True))

"""Forks: a new job from an old checkpoint."""

from __future__ import annotations

from fastapi import APIRouter

router = APIRouter(prefix="/api/v1/jobs/{job}", tags=["checkpoints"])

# The one image of the project: every command, the page included. Built and run without rights; nothing is written.
#   docker build -t oomph . && docker run --rm oomph plan --gpu "RTX 4090" -- vllm serve Qwen/Qwen3-8B
#   docker run --rm -v "$PWD:/work:ro" oomph check --gpu "RTX 4090" .
FROM python:3.12-slim AS build
WORKDIR /source
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY src src
COPY docs/man docs/man
RUN python -m venv /oomph && /oomph/bin/pip install --no-cache-dir '.[ui,mcp]'

FROM python:3.12-slim
COPY --from=build /oomph /oomph
RUN useradd --create-home --uid 10001 oomph
USER oomph
WORKDIR /work
ENV PATH=/oomph/bin:$PATH PYTHONDONTWRITEBYTECODE=1 OOMPH_CACHE=/tmp/oomph
ENTRYPOINT ["oomph"]
CMD ["--help"]

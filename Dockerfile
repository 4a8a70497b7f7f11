# The server. Its kernels are compiled for the machine that runs it, at the first start: hence the compiler.
#   docker build -t motet .
#   docker run --rm -v motet:/data motet keys create --data-dir /data --tenant me
#   docker run -p 127.0.0.1:8000:8000 -v motet:/data motet
FROM python:3.11-slim

RUN apt-get update && apt-get install --yes --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*
RUN useradd --uid 10001 --create-home motet && install --directory --owner=motet --mode=0700 /data

WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY motet motet
RUN pip install --no-cache-dir --extra-index-url https://download.pytorch.org/whl/cpu -c constraints.txt ".[postgres]"

USER motet
WORKDIR /data
ENV XDG_CACHE_HOME=/data/cache HF_HOME=/data/cache/huggingface
VOLUME /data
EXPOSE 8000
HEALTHCHECK --start-period=120s CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/api/v1/healthz', timeout=3)"]
ENTRYPOINT ["motet"]
CMD ["serve", "--data-dir", "/data", "--host", "0.0.0.0", "--log-format", "json"]

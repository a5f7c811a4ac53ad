"""Containers and jobs as files describe them: Dockerfiles, compose, Kubernetes, other tools' YAML."""

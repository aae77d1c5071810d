"""The JSON schema of a study file, for editors; the copy in docs/ is written by `python -m bakeoff.spec.schema`."""

import json

from bakeoff.spec.study_file import StudyFile


def study_schema() -> str:
    """The schema as the text of docs/study.schema.json."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema"} | StudyFile.model_json_schema()
    schema["title"] = "bakeoff study"
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    print(study_schema(), end="")

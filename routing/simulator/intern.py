"""A model that plays an intern: it writes a file, asks its person one question and says so.

It answers a request whose model name contains "intern" and which offers an intern's tools. What it
does next follows from the conversation since the last user message alone, so it keeps no state.
"""

import json
import re

from routing.simulator.encoding import JsonObject
from routing.simulator.prompt import list_functions, read_text

WRITE, READ, LIST, ASK = "write_file", "read_file", "list_files", "ask_person"
FILE = "notes.md"
ASKS_FOR_FILES = re.compile(r"\b(files?|list|still there)\b", re.IGNORECASE)
ASKS_TO_READ = re.compile(r"\bread (\S+)", re.IGNORECASE)
QUESTION = "Simulated question: which title shall the notes have?"


def is_intern(body: JsonObject) -> bool:
    names = {function.get("name") for function in list_functions(body)}
    return "intern" in str(body.get("model")) and {WRITE, ASK} <= names


def play_intern(body: JsonObject) -> JsonObject:
    """What is said or called next, as an override of the answer."""
    # The last user text, and what tools returned after it.
    user_text = ""
    results: list[str] = []
    for message in body["messages"]:
        role = message.get("role") if isinstance(message, dict) else None
        if role == "user":
            user_text, results = read_text(message.get("content")), []
        elif role == "tool":
            results.append(read_text(message.get("content")))
    if found := ASKS_TO_READ.search(user_text):
        return _use_tool(READ, {"path": found[1].rstrip(".,?!")}, results, "The file says:")
    if ASKS_FOR_FILES.search(user_text):
        return _use_tool(LIST, {}, results, "These files are here:")
    if not results:
        return _call_tool(WRITE, {"path": FILE, "content": f"# Notes\n\n{user_text}\n"})
    if len(results) == 1:
        fields = [{"name": "title", "type": "string", "required": True}]
        return _call_tool(ASK, {"message": QUESTION, "fields": fields})
    return {"text": f"Simulated intern: {FILE} is written. You answered: {results[1]}"}


def _use_tool(tool: str, arguments: JsonObject, results: list[str], said: str) -> JsonObject:
    if results:
        return {"text": f"Simulated intern: {said} {results[0]}"}
    return _call_tool(tool, arguments)


def _call_tool(name: str, arguments: JsonObject) -> JsonObject:
    return {"tool_calls": [{"name": name, "arguments": json.dumps(arguments)}]}

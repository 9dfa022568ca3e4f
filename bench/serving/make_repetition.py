"""Writes repetition.jsonl: 50 chat prompts whose answers repeat much of what they were given, code and quotations.

usage: make_repetition.py > repetition.jsonl
"""

import json

CODE = {
    "inventory": """class Inventory:
    def __init__(self):
        self.items = {}

    def add(self, name, count):
        self.items[name] = self.items.get(name, 0) + count

    def remove(self, name, count):
        if self.items.get(name, 0) < count:
            raise ValueError("not enough " + name)
        self.items[name] -= count
""",
    "moving average": """def moving_average(values, width):
    if width < 1 or width > len(values):
        raise ValueError("width must lie between 1 and the number of values")
    total = sum(values[:width])
    averages = [total / width]
    for i in range(width, len(values)):
        total += values[i] - values[i - width]
        averages.append(total / width)
    return averages
""",
    "configuration": """{
  "name": "harbour-lights",
  "version": "2.4.1",
  "ports": [8080, 8081, 8443],
  "logging": {"level": "info", "file": "/var/log/harbour-lights.log"},
  "limits": {"requests": 500, "body_bytes": 1048576, "seconds": 30}
}
""",
    "queue": """struct Queue {
  int values[64];
  int first = 0, count = 0;

  bool push(int value) {
    if (count == 64) return false;
    values[(first + count) % 64] = value;
    ++count;
    return true;
  }

  bool pop(int* value) {
    if (count == 0) return false;
    *value = values[first];
    first = (first + 1) % 64;
    --count;
    return true;
  }
};
""",
    "query": """SELECT customers.name, orders.placed_on, orders.total
FROM customers
JOIN orders ON orders.customer_id = customers.id
WHERE orders.placed_on >= '2026-01-01'
  AND orders.total > 100
ORDER BY orders.placed_on DESC, customers.name
LIMIT 50;
""",
}

CODE_TASKS = [
    "Give this code again, unchanged:",
    "Add a comment above each line of this code and give the whole code:",
    "Explain this code line by line. Quote each line before you explain it:",
    "Write this code again with longer, clearer names:",
    "Find mistakes in this code, then give the whole corrected code:",
]

TEXT = {
    "bridge": "The stone bridge over the Arle was built in 1732 by two brothers who did not speak to each other. One "
    "began on the north bank and the other on the south bank, and they met in the middle a year later. The arches on "
    "the north side are round and the arches on the south side are pointed. Nobody has ever fallen off it.",
    "bread": "Mix five hundred grams of flour with three hundred and fifty grams of water and leave it for half an "
    "hour. Add ten grams of salt and one hundred grams of leaven. Fold the dough every half hour for three hours. "
    "Shape the dough, leave it in a cold place overnight, and bake it at two hundred and forty degrees for forty "
    "minutes.",
    "minutes": "Present were Ms Adeyemi, Mr Brandt, Ms Castellanos and Mr Dvorak. Ms Adeyemi reported that the roof of "
    "the library will be repaired in March. Mr Brandt reported that the roof of the school will be repaired in April. "
    "Ms Castellanos asked who will pay for the two roofs. Mr Dvorak said that the town will pay for the two roofs.",
    "heron": "The grey heron stands in shallow water and waits. It eats fish, frogs, voles and, in a dry year, moles. "
    "It nests in tall trees, often in the same tree for many years, and often with other herons. In winter the grey "
    "heron leaves frozen lakes and stands at the mouths of rivers, where the water does not freeze.",
    "letter": "Dear neighbours, on Saturday the twelfth of June we will have guests, and there will be music until "
    "eleven in the evening. If the music is too loud, please ring at our door. You are invited to come and eat with us "
    "at six in the evening. There will be soup, bread, cheese and, if it does not rain, fish from the grill.",
}

TEXT_TASKS = [
    "Repeat this text word for word:",
    "Quote each sentence of this text on a line of its own:",
    "Correct the spelling of this text, where it is wrong, and give the whole text:",
    "Give this text as a numbered list, one sentence a line:",
    "Summarise this text, then quote the sentences that your summary rests on:",
]


def main():
    for subjects, tasks, kind in ((CODE, CODE_TASKS, "code"), (TEXT, TEXT_TASKS, "quotation")):
        for name, body in subjects.items():
            for number, task in enumerate(tasks):
                message = {"role": "user", "content": f"{task}\n\n{body}"}
                print(json.dumps({"id": f"{kind}/{name}/{number}", "messages": [message]}))


main()

#!/usr/bin/env python3
"""Small files of tasks for 'weft perplexity --hellaswag, --winogrande, --multiple-choice', in llama.cpp's forms.

Writes hellaswag.txt, winogrande.csv and multiple_choice.bin into the folder given (tests/data/tasks). The tasks are
defined here. The wrong endings of a story or question are the endings of others.
"""

import random
import struct
import sys
from pathlib import Path

STORIES = [
    ("Making tea", "A woman fills the kettle and waits until it whistles. She", "pours the hot water over the leaves in the pot."),
    ("Mending a bicycle", "A boy turns his bicycle over and takes off the wheel. He", "pulls out the tube and looks for the hole."),
    ("Fishing", "An old man sits by the river with a rod in his hands. Suddenly the line", "pulls tight, and a fish leaps out of the water."),
    ("Baking bread", "The baker kneads the dough and leaves it in a warm place. After an hour it", "has risen to twice its size, and goes into the oven."),
    ("Painting a fence", "Two brothers open a can of white paint and take their brushes. They", "cover the boards one after another until all are white."),
    ("Walking the dog", "A girl puts the dog on its lead and opens the front door. The dog", "runs down the steps and pulls her towards the park."),
    ("Playing chess", "The two players look at the board for a long time. Then one of them", "moves his queen and says that the game is over."),
    ("Washing dishes", "After dinner there is a pile of plates in the sink. Her father", "rolls up his sleeves and lets the hot water run."),
    ("Climbing", "The climber hangs from the rope above the valley. She", "finds a hold for her foot and pulls herself up."),
    ("Reading aloud", "The children sit in a circle around their teacher. She", "opens the book and begins to read the story."),
    ("Cutting hair", "A man sits down in front of the mirror and asks for a short cut. The barber", "takes his scissors and begins behind the ear."),
    ("Planting a tree", "They dig a deep hole in the garden behind the house. Then they", "set the young tree into it and fill it with earth."),
    ("Lighting a fire", "He stacks dry wood in the stove and crumples some paper. He", "strikes a match and holds it to the paper."),
    ("Crossing a lake", "The small boat leaves the shore early in the morning. The sailor", "raises the sail, and the wind takes them across."),
    ("Buying apples", "A customer picks six apples at the market and asks for the price. The farmer", "weighs them on the scale and puts them into a bag."),
    ("Writing a letter", "She sits down at the desk and takes a sheet of paper. At the end she", "signs her name and puts it into an envelope."),
    ("Playing the piano", "The pianist walks onto the stage and sits down at the instrument. He", "places his fingers on the keys and begins to play."),
    ("Shovelling snow", "It has snowed all night, and the path to the door has vanished. The neighbour", "takes a shovel and clears the path before breakfast."),
    ("Catching a train", "They run along the platform with their bags. Just as the doors close they", "jump into the last carriage and sit down, out of breath."),
    ("Knitting", "Grandmother sits by the window with wool in her lap. Her needles", "click quickly, and the scarf grows row by row."),
    ("Feeding chickens", "The farmer's son carries a bucket of corn into the yard. The hens", "come running from all sides and pick up the grains."),
    ("Fixing a roof", "A storm has torn some tiles from the roof. The roofer", "climbs the ladder and lays new ones in their place."),
    ("Swimming", "The swimmers stand on the blocks and wait for the signal. When it sounds they", "dive into the water and race to the other side."),
    ("Looking at stars", "On a clear night they carry the telescope to the top of the hill. Through it they", "see the rings of Saturn for the first time."),
]

SENTENCES = [
    ("The trophy does not fit into the suitcase because the _ is too large for it.", "trophy", "suitcase", 1),
    ("The trophy does not fit into the suitcase because the _ is too small for it.", "trophy", "suitcase", 2),
    ("Anna lent Maria some money because _ had lost her purse on the way.", "Anna", "Maria", 2),
    ("Anna lent Maria some money because _ had plenty of it in the bank.", "Anna", "Maria", 1),
    ("The ball broke the table because the _ was made of very hard steel.", "ball", "table", 1),
    ("The ball broke the table because the _ was made of very thin glass.", "ball", "table", 2),
    ("Paul called George on the phone, but _ did not pick it up in time.", "Paul", "George", 2),
    ("Paul passed the gift to George because _ wanted to give it away today.", "Paul", "George", 1),
    ("The sheep ran from the wolf because the _ was afraid of being eaten.", "sheep", "wolf", 1),
    ("The sheep ran from the wolf because the _ was looking for its dinner.", "sheep", "wolf", 2),
    ("I could not lift the box onto the shelf because the _ was too heavy for me.", "box", "shelf", 1),
    ("I could not lift the box onto the shelf because the _ was too high for me.", "box", "shelf", 2),
    ("Peter envied Martin because _ had won the prize without any effort at all.", "Peter", "Martin", 2),
    ("The lamp lit the room badly because the _ was much too weak for that.", "lamp", "room", 1),
    ("The lamp lit the room badly because the _ was much too wide for that.", "lamp", "room", 2),
    ("The nurse brought the patient a glass of water because the _ was thirsty after the walk.", "nurse", "patient", 2),
    ("The river flooded the field because the _ was higher than ever after the rain.", "river", "field", 1),
    ("The car passed the lorry on the hill because the _ was going so slowly there.", "car", "lorry", 2),
    ("The car passed the lorry on the hill because the _ was in such a hurry there.", "car", "lorry", 1),
    ("Emma thanked Laura after the lesson, since _ had helped her with everything.", "Emma", "Laura", 2),
]

QUESTIONS = [
    ("The capital of France is", "Paris."),
    ("The capital of Italy is", "Rome."),
    ("The capital of Japan is", "Tokyo."),
    ("The capital of England is", "London."),
    ("The largest planet of the solar system is", "Jupiter."),
    ("The star that the earth moves around is", "the sun."),
    ("The animal that gives us wool is", "the sheep."),
    ("The animal that gives us milk is", "the cow."),
    ("Frozen water is called", "ice."),
    ("The season after winter is", "spring."),
    ("The day after Monday is", "Tuesday."),
    ("The month before March is", "February."),
    ("Two and two make", "four."),
    ("The opposite of hot is", "cold."),
    ("The opposite of early is", "late."),
    ("A person who bakes bread is called a", "baker."),
    ("A person who flies a plane is called a", "pilot."),
    ("Bees make", "honey."),
    ("Books are kept in a", "library."),
    ("The metal that magnets attract is", "iron."),
    ("Wine is made from", "grapes."),
    ("Fish breathe with", "gills."),
]


def choices(items: list[str], right: int, n: int, rng: random.Random) -> tuple[list[str], int]:
    others = rng.sample([item for i, item in enumerate(items) if i != right], n - 1)
    place = rng.randrange(n)
    return others[:place] + [items[right]] + others[place:], place


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(5)

    lines = []
    for i, (label, context, _) in enumerate(STORIES):
        endings, place = choices([ending for _, _, ending in STORIES], i, 4, rng)
        lines += [f"{label}: {context}", str(place), *endings]
    (folder / "hellaswag.txt").write_text("\n".join(lines) + "\n")

    quoted = lambda text: f'"{text}"' if "," in text else text  # noqa: E731
    rows = [f"{i},{quoted(text)},{one},{two},{right}" for i, (text, one, two, right) in enumerate(SENTENCES)]
    (folder / "winogrande.csv").write_text("\n".join(rows) + "\n")

    def text(words: str) -> bytes:
        return struct.pack("<I", len(words.encode())) + words.encode()

    tasks = []
    for i, (question, _) in enumerate(QUESTIONS):
        answers, place = choices([answer for _, answer in QUESTIONS], i, rng.choice([2, 4, 5]), rng)
        labels = struct.pack(f"<{len(answers)}i", *(int(j == place) for j in range(len(answers))))
        first = struct.pack("<I", len(answers)) + b"".join(map(text, answers)) + labels
        tasks.append(text(question) + first + struct.pack("<I", 0))
    places, at = [], 4 + 4 * len(tasks)
    for task in tasks:
        places.append(at)
        at += len(task)
    data = struct.pack(f"<{len(tasks) + 1}I", len(tasks), *places) + b"".join(tasks)
    (folder / "multiple_choice.bin").write_bytes(data)


if __name__ == "__main__":
    main()

"""The documents of the local search service in ``search.py``: an invented corner of the world.

No town, person or number here exists. The markup is five rules: an empty line ends a paragraph,
``## `` opens a section, ``- `` a list line, ``| `` a table row, and ```` ``` ```` lines enclose
text that is shown as it stands.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Document:
    """One page: its address, title, date and text."""

    url: str
    title: str
    date: str
    text: str


LINE_SEPARATOR = "\u2028"
GAZETTEER = "http://gazetteer.example/places"
ENCYCLOPEDIA = "http://encyclopedia.example/wiki"
MUSEUM = "http://museum-of-works.example/objects"
HERALD = "http://korvand-herald.example/news"
TIMETABLE = "http://northern-lines.example/lines"
MANUAL = "http://model-manual.example/guide"

DOCUMENTS = (
    Document(f"{GAZETTEER}/korvand", "Korvand", "2019-03-02", """\
Korvand is a harbour town of 18,240 people at the mouth of the river Ashel. It has been the seat
of the Northern Assembly since 1874.

## Facts
| Field | Value |
| Population | 18,240 (census of 2018) |
| River | Ashel |
| Founded | 1312 |"""),
    Document(f"{GAZETTEER}/tolmen", "Tolmen", "2019-03-02", """\
Tolmen is a mining town of 6,900 people in the upper Ashel valley, 74 km south of Korvand. Its
slate quarries closed in 1961 and now house a climbing school."""),
    Document(f"{GAZETTEER}/skarne", "Skarne", "2020-07-19", """\
Skarne is a treeless island of 11 square kilometres, 23 km off Korvand. Forty-one people live
there all year. Its lighthouse was lit for the first time in 1887."""),
    Document(f"{GAZETTEER}/ashel", "Ashel (river)", "2019-03-02", """\
The Ashel rises at Lake Ommer, 612 m above the sea, and reaches the sea at Korvand after 131 km.
It is crossed by nine road bridges and one railway bridge, the Marrow Bridge."""),
    Document(f"{GAZETTEER}/lake-ommer", "Lake Ommer", "2019-03-02", """\
Lake Ommer is the source of the Ashel. It covers 48 square kilometres and is 97 m deep at its
deepest place. It freezes over from December to April."""),
    Document(f"{GAZETTEER}/vesle", "Vesle", "2021-01-11", """\
Vesle is a village of 820 people on the coast road between Korvand and Hallin. Its market on the
first Sunday of September is known for smoked eel."""),
    Document(f"{GAZETTEER}/hallin", "Hallin", "2021-01-11", """\
Hallin is a university town of 31,500 people, the largest place in the Northern Assembly. The
university was founded in 1799 and teaches 5,200 students."""),
    Document(f"{GAZETTEER}/mount-brae", "Mount Brae", "2020-07-19", """\
Mount Brae, 1,904 m, is the highest summit of the Northern Assembly. The first recorded ascent
was made by Petra Lindqvar on 3 August 1856."""),
    Document(f"{ENCYCLOPEDIA}/Ilse_Marrow", "Ilse Marrow", "2022-05-30", """\
Ilse Marrow (1838 to 1911) was a bridge engineer. She was born in Tolmen as the daughter of a
quarryman and studied in Hallin. Her best known work is the railway bridge over the Ashel that
now bears her name.

## Works
- Marrow Bridge, finished in 1879
- Skarne lighthouse, lit in 1887
- Dry dock of Korvand, opened in 1894"""),
    Document(f"{ENCYCLOPEDIA}/Marrow_Bridge", "Marrow Bridge", "2022-05-30", """\
The Marrow Bridge carries the railway over the Ashel at Korvand. It was built from 1875 to 1879
after a design by Ilse Marrow. It is 412 m long and rests on seven piers of Tolmen slate.

## Repairs
The third pier was moved by ice in the winter of 1902 and built anew in 1903."""),
    Document(f"{ENCYCLOPEDIA}/Skarne_lighthouse", "Skarne lighthouse", "2021-10-08", """\
Skarne lighthouse is a granite tower of 38 m on the island of Skarne. It was designed by Ilse
Marrow and lit on 14 October 1887. Its light is seen for 21 nautical miles. The last keeper,
Odd Renner, left in 1978, when the lamp became automatic."""),
    Document(f"{ENCYCLOPEDIA}/Petra_Lindqvar", "Petra Lindqvar", "2020-02-14", """\
Petra Lindqvar (1829 to 1899) was a botanist and climber. She described 43 mosses, among them
the brae moss, and made the first recorded ascent of Mount Brae in 1856."""),
    Document(f"{ENCYCLOPEDIA}/Brae_moss", "Brae moss", "2020-02-14", """\
The brae moss is a silver-grey moss that grows only above 1,500 m, on wet slate. Petra Lindqvar
described it in 1861. It has been protected since 1988."""),
    Document(f"{ENCYCLOPEDIA}/Northern_Assembly", "Northern Assembly", "2023-09-01", """\
The Northern Assembly is the parliament of the region around the Ashel. It has 61 members and
has met in Korvand since 1874; before that it met in Hallin."""),
    Document(f"{ENCYCLOPEDIA}/University_of_Hallin", "University of Hallin", "2023-09-01", """\
The University of Hallin was founded in 1799 by the physician Jorun Aske. Its library holds
410,000 volumes and the only complete copy of the Ommer Chronicle."""),
    Document(f"{ENCYCLOPEDIA}/Ommer_Chronicle", "Ommer Chronicle", "2023-09-01", """\
The Ommer Chronicle is a manuscript of 212 leaves, written between 1390 and 1420 in the abbey on
Lake Ommer. It tells of the founding of Korvand in 1312 and of the great flood of 1347."""),
    Document(f"{ENCYCLOPEDIA}/Jorun_Aske", "Jorun Aske", "2022-11-23", """\
Jorun Aske (1751 to 1822) was a physician who founded the University of Hallin in 1799. Her
treatise on the treatment of scurvy with spruce tea was printed in 1784."""),
    Document(f"{ENCYCLOPEDIA}/Ashel_salmon", "Ashel salmon", "2021-04-17", """\
The Ashel salmon spawns only in the gravel above Tolmen. Counts at the weir of Korvand fell from
9,400 fish in 1950 to 1,120 in 1990 and rose again to 3,870 in 2020."""),
    Document(f"{ENCYCLOPEDIA}/Smoked_eel", "Smoked eel", "2021-04-17", """\
Smoked eel of the northern coast is cured over juniper for nine hours. The best known comes from
Vesle, where a market has been held every September since 1743."""),
    Document(f"{ENCYCLOPEDIA}/Tolmen_slate", "Tolmen slate", "2022-05-30", """\
Tolmen slate is a blue-grey slate quarried from 1690 to 1961. It roofs the Assembly house and
carries the piers of the Marrow Bridge. At its height, in 1883, the quarry had 1,410 workers."""),
    Document(f"{MUSEUM}/204", "Object 204: first-order lens", "2018-06-05", """\
Lens of the Skarne lighthouse, made in 1886 by the glassworks of Hallin. It weighs 2.9 tonnes
and has 1,008 prisms. It was taken down in 1978 and given to the museum by the coast office."""),
    Document(f"{MUSEUM}/311", "Object 311: keeper's log", "2018-06-05", """\
Log of the Skarne lighthouse for 1902 and 1903, kept by Hedda Renner. It records 61 days of fog
and the wreck of the barque Amalie on 9 February 1903, from which all 14 hands were saved."""),
    Document(f"{MUSEUM}/118", "Object 118: drawing of a pier", "2018-06-05", """\
Ink drawing by Ilse Marrow of the third pier of the bridge at Korvand, dated 12 May 1876. A note
on the margin asks for a deeper footing, which was refused for its cost."""),
    Document(f"{MUSEUM}/427", "Object 427: signal bell", "2018-06-05", """\
Bronze bell of the station of Tolmen, cast in 1881. It was rung for every train until the line
was electrified in 1958."""),
    Document(f"{MUSEUM}/502", "Object 502: ferry song", "2019-12-01", LINE_SEPARATOR.join([
        "A song of the Skarne ferry, taken down in Vesle in 1921.",
        "Row, for the lamp on the granite is burning,",
        "row, for the tide at the skerries is turning,",
        "eleven are waiting and one is returning,",
        "row, for the bread of Vesle."])),
    Document(f"{HERALD}/2021/ferry", "New ferry for Skarne", "2021-05-04", """\
The electric ferry Hedda begins its service to Skarne on 1 June. It takes 80 passengers and
needs 55 minutes for the crossing, ten fewer than the old boat."""),
    Document(f"{HERALD}/2022/bridge", "Marrow Bridge closed for eleven weeks", "2022-02-21", """\
The Marrow Bridge will be closed from 7 March to 22 May while its rivets are checked. Buses will
run between Korvand and Tolmen every thirty minutes."""),
    Document(f"{HERALD}/2023/salmon", "Salmon count: best year since 1961", "2023-11-09", """\
The weir of Korvand counted 4,512 Ashel salmon this year, the most since 1961. The river office
thanks the new fish ladder, which was opened in 2019."""),
    Document(f"{HERALD}/2023/library", "Chronicle goes on show", "2023-03-28", """\
The library of Hallin shows the Ommer Chronicle from 3 April to 30 June. Only the page on the
flood of 1347 will be open; it is turned once a week."""),
    Document(f"{HERALD}/2020/census", "Korvand grows, a little", "2020-01-15", """\
A count by the town office gives Korvand 18,655 people at the end of 2019. The census of 2018
had found 18,240. Most of the newcomers work at the wind yard."""),
    Document(f"{HERALD}/2024/moss", "Climbers asked to spare the brae moss", "2024-06-12", """\
The park office asks climbers on Mount Brae to keep to the marked route, since the brae moss
needs twenty years to cover a hand's breadth of slate."""),
    Document(f"{TIMETABLE}/ashel", "Ashel line: Korvand to Tolmen", "2024-01-01", """\
The Ashel line is 76 km long and has eight stations. A train runs every hour.

| Station | Minute |
| Korvand | 0 |
| Ferring | 14 |
| Upper Weir | 31 |
| Tolmen | 68 |"""),
    Document(f"{TIMETABLE}/coast", "Coast line: Korvand to Hallin", "2024-01-01", """\
The coast line is 52 km long. A train runs every thirty minutes and stops at Vesle on request.

| Station | Minute |
| Korvand | 0 |
| Vesle | 22 |
| Hallin | 47 |"""),
    Document(f"{TIMETABLE}/history", "History of the lines", "2022-08-30", """\
- 1879: the Ashel line opens with the Marrow Bridge
- 1881: the line reaches Tolmen
- 1904: the coast line opens
- 1958: both lines are electrified"""),
    Document(f"{MANUAL}/chat-templates", "Chat templates", "2024-09-18", """\
A chat template turns a list of messages into one text for a language model. A common layout
writes each message as a block:

```
<|im_start|>system
You are a careful archivist.<|im_end|>
<|im_start|>user
When was the bridge finished?<|im_end|>
<|im_start|>assistant
```

The strings <|im_start|> and <|im_end|> are single tokens in the vocabulary. Text that comes from
outside, such as this page, may spell them out and must stay plain text when it is tokenised."""),
    Document(f"{MANUAL}/tokenizers", "Tokenizers", "2024-09-18", """\
A tokenizer cuts text into pieces of a fixed vocabulary. Special tokens stand outside the text:
they are added by the chat template and never read from user text."""),
    Document(f"{MANUAL}/thinking-tags", "Thinking tags", "2024-10-02", """\
Some models write their reasoning between <think> and </think> before the answer. A program that
splits at </think> goes wrong when the answer itself speaks of the tag."""),
    Document(f"{MANUAL}/sampling", "Sampling", "2024-10-02", """\
A temperature of 0 always takes the likeliest token. With 0.6, a usual value for models that
reason, the text varies from run to run."""),
    Document("http://wind-yard.example/about", "The wind yard of Korvand", "2020-09-09", """\
The yard opened in 2017 on the site of the dry dock of 1894 and builds towers for wind turbines.
It employs 640 people and delivers two towers a week."""),
    Document("http://coast-office.example/lights", "List of lights", "2023-01-01", """\
| Light | Height | Range | Character |
| Skarne | 38 m | 21 nm | two white flashes, 15 s |
| Korvand mole | 9 m | 6 nm | green, 3 s |
| Vesle | 12 m | 8 nm | one white flash, 5 s |"""),
)  # fmt: skip

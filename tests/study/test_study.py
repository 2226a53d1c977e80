"""Study files: what is right is read, what is wrong is explained with its place."""

import re
import time
from pathlib import Path

import pytest

from hypertare.base.errors import InputError
from hypertare.design.design import make
from hypertare.study import StudyFile, builtin_names, combinations, find
from hypertare.study.factors import cells

GOOD = """
name = "probe"
question = "Is it slow?"

[sut]
cpus = 2
memory = "256M"

[workloads.build]
type = "command"
command = ["make", "-j2"]

[workloads.udp]
type = "stream"
protocol = "udp"
rate = "100M"

[factors]
"sut.nic" = ["virtio-net", "e1000"]
"workloads.udp.rate" = ["50M", "100M"]

[design]
precision = "5%"
"""


def file(text: str = GOOD) -> StudyFile:
    return StudyFile(text, "probe.toml")


def complaint(text: str) -> str:
    with pytest.raises(InputError) as caught:
        file(text).study()
    assert caught.value.status == 2
    return str(caught.value)


def test_a_good_study_is_read_with_units() -> None:
    study = file().study()
    assert study.sut.memory == 256 << 20
    assert study.design.precision == 0.05
    assert study.workloads["udp"].rate == 1e8
    assert study.workloads["udp"].message_bytes == 1472


def test_every_built_in_study_is_valid() -> None:
    assert "first-look" in builtin_names()
    for name in builtin_names():
        study = find(name).study()
        assert study.name == name
        quick = find(name)
        quick.override([], quick=True)
        quick.study()


def test_a_misspelt_key_is_named_with_its_line_and_a_suggestion() -> None:
    text = complaint(GOOD.replace("memory =", "memroy ="))
    assert "probe.toml:7: sut.memroy" in text
    assert "Did you mean 'memory'?" in text
    assert "cpus" in text


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            "[knobs.ksm]\npages_to_scn = 5",
            "Did you mean 'pages_to_scan'? Allowed: run, pages_to_scan",
        ),
        (
            "[workloads.udp.neighbours]\nshar = 0.5",
            "Did you mean 'share'? Allowed: share, stream, rate, socket_buffer, measured.",
        ),
        ("[[claims]]\ntxt = 'so'", "Did you mean 'text'?"),
        ("[[plots]]\ntitel = 'so'", "Did you mean 'title'?"),
        ("[workloads.ping]\ntype = 'ping'\nintervl = 1", "Did you mean 'interval'?"),
    ],
)
def test_the_keys_of_the_innermost_table_are_suggested(more: str, said: str) -> None:
    assert said in complaint(GOOD + more)


def test_a_wrong_level_names_the_allowed_ones() -> None:
    text = complaint(GOOD.replace('protocol = "udp"', 'protocol = "upd"'))
    assert "probe.toml:15: workloads.udp.protocol: 'upd' is not allowed here." in text
    assert "Did you mean 'udp'?" in text


def test_a_missing_key_is_named() -> None:
    assert "question: this key is missing" in complaint(GOOD.replace("question", "#"))
    text = complaint(GOOD.replace('command = ["make", "-j2"]', ""))
    assert "workloads.build.command: this key is missing" in text


def test_an_unknown_workload_type_is_named() -> None:
    text = complaint(GOOD.replace('type = "stream"', 'type = "streem"'))
    assert "workloads.udp" in text
    assert "Did you mean 'stream'?" in text


def test_no_toml_at_all() -> None:
    with pytest.raises(InputError, match=r"probe\.toml: this is no valid TOML.*line 1"):
        file("what is this")


def test_a_size_that_is_none_says_how_to_write_one() -> None:
    assert "write for example" in complaint(GOOD.replace('"256M"', '"much"'))


def test_a_level_of_a_factor_is_checked_too() -> None:
    assert "tulip" in complaint(GOOD.replace('"e1000"]', '"tulip"]'))
    assert "no workload 'upd'" in complaint(
        GOOD.replace("workloads.udp.rate", "workloads.upd.rate")
    )


def test_native_must_be_there() -> None:
    assert "baseline" in complaint(GOOD.replace("cpus = 2", 'platforms = ["guest"]'))


@pytest.mark.parametrize(
    ("sut", "says"),
    [
        ('paging = "shadow"\naccelerator = "tcg"', "page tables are KVM's"),
        ('pages = "2M"\nmemory = "129M"', "no whole number of the pages of 2 MB"),
        ('pages = "1G"', "Allowed: 4K, 2M, thp"),
        ('paging = "nestd"', "Did you mean 'nested'?"),
    ],
)
def test_how_memory_is_mapped_fits_the_guest(sut: str, says: str) -> None:
    text = f'name = "m"\nquestion = "?"\n[sut]\n{sut}\n[workloads.b]\ntype = "burn"\n'
    with pytest.raises(InputError) as raised:
        StudyFile(text, "m.toml").study()
    assert says in str(raised.value)


def test_overrides_take_toml_and_text() -> None:
    study_file = file()
    study_file.override(["sut.cpus=4", "sut.nic=e1000", 'design.precision="1%"'], quick=False)
    study = study_file.study()
    assert (study.sut.cpus, study.sut.nic, study.design.precision) == (4, "e1000", 0.01)


@pytest.mark.parametrize(
    ("assignment", "expected"),
    [
        ("sut.platforms=native,guest", ("native", "guest")),
        ("sut.platforms=native", ("native",)),
        ("sut.platform=guest", ("native", "guest")),
        ('sut.platforms=["guest", "native"]', ("guest", "native")),
        ("sut.kernel_args=quiet", ("quiet",)),
    ],
)
def test_words_are_a_list_where_one_is_wanted(assignment: str, expected: tuple[str, ...]) -> None:
    study_file = file()
    study_file.override([assignment], quick=False)
    path = "kernel_args" if "kernel_args" in assignment else "platforms"
    assert getattr(study_file.study().sut, path) == expected


def test_numbers_between_commas_are_a_list_and_a_command_with_commas_is_none() -> None:
    study_file = find("virtual-router")
    weights = "knobs.guest_weights=64,256"
    study_file.override([weights, "knobs.guest_weights=64, 512", "question=a,b"], quick=False)
    assert study_file.raw["knobs"]["guest_weights"] == [64, 512]
    assert study_file.raw["question"] == "a,b"


def test_what_is_no_list_is_said() -> None:
    study_file = file()
    study_file.override(["sut.platforms=5"], quick=False)
    with pytest.raises(InputError, match=r"platforms: this is to be a list.*\[5\]"):
        study_file.study()


STREAM = """
name = "x"
question = "x?"
machine = "emulated"
sut = { platforms = ["native", "guest"], cpus = 3, guest_cpus = 2 }
[workloads.load]
type = "stream"
"""


def stream(*lines: str) -> StudyFile:
    return StudyFile(STREAM + "\n".join(lines), "x.toml")


def test_lists_of_cpus_are_levels_by_their_text() -> None:
    path = "workloads.load.sender_cpus"
    same = stream(f'factors = {{ "{path}" = [[0, 1], "0-1"] }}')
    with pytest.raises(InputError, match="'0,1' is the same"):
        same.study()
    written = stream('direction = "receive"', f'factors = {{ "{path}" = [[0], [0, 1], "0-2"] }}')
    assert written.study().factors_of("load") == {path: ("0", "0,1", "0-2")}
    for level, cpus in (("0", (0,)), ("0,1", (0, 1)), ("0-2", (0, 1, 2))):
        assert written.cell({path: level}).workloads["load"].sender_cpus == cpus


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["sender_cpus = [2]"], "sender_cpus names CPU 2, and there are 2, counted from 0"),
        (["receiver_cpus = [3]"], "receiver_cpus names CPU 3, and there are 3"),
        (['direction = "receive"', "receiver_cpus = [2]"], "receiver_cpus names CPU 2"),
        (['direction = "both"', "receiver_cpus = [2]"], "and there are 2"),
        (["[knobs]", "interrupt_cpus = [2]"], "knobs.interrupt_cpus names CPU 2, and there are 2"),
        (['sender_cpus = "1-"'], "no list of CPUs"),
        (["sender_cpus = [-1]"], "no list of CPUs"),
        (["sender_cpus = [0, 0]"], "twice"),
        (['sender_cpus = "3-1"'], "no range of CPUs"),
    ],
)
def test_cpus_that_are_not_there(lines: list[str], said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        stream(*lines).study()


def test_cpus_of_both_ends() -> None:
    assert stream("sender_cpus = [1]", "receiver_cpus = [2]").study()
    assert stream('direction = "receive"', "sender_cpus = [2]", "receiver_cpus = [1]").study()


@pytest.mark.parametrize("assignment", ["sut.cpus", "=3"])
def test_an_override_that_is_no_assignment(assignment: str) -> None:
    with pytest.raises(InputError, match="no assignment"):
        file().override([assignment], quick=False)


def test_an_override_of_what_is_no_table() -> None:
    with pytest.raises(InputError, match="is no table"):
        file().override(["name.x=1"], quick=False)


def test_a_cell_has_the_levels_in_place() -> None:
    cell = file().cell({"sut.nic": "e1000", "workloads.udp.rate": "50M"})
    assert cell.sut.nic == "e1000"
    assert cell.workloads["udp"].rate == 5e7


def test_unknown_study_and_unreadable_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Did you mean 'first-look'"):
        find("first-lok")
    with pytest.raises(InputError, match="cannot be read"):
        find(str(tmp_path / "absent.toml"))
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="UTF-8"):
        find(str(tmp_path / "binary.toml"))


def test_combinations_are_a_full_factorial() -> None:
    cells = combinations({"a": (1, 2), "b": ("x", "y", "z")})
    assert len(cells) == 6
    assert len({tuple(cell.items()) for cell in cells}) == 6
    assert combinations({}) == [{}]


EMULATED = GOOD.replace("cpus = 2", "programs = ['build', './mine']").replace(
    'question = "Is it slow?"', 'question = "Is it slow?"\nmachine = "emulated"'
)


def test_programs_of_an_emulated_machine() -> None:
    assert file(EMULATED).study().sut.programs == ("build", "./mine")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("'build'", "'biuld'"), "probe.toml:7: sut.programs: there is no set of programs 'biuld'"),
        (("'build'", "'biuld'"), "Did you mean 'build'?"),
        (("'build'", "'mine'"), "for example './mine'"),
        (('machine = "emulated"', ""), "image of an emulated machine"),
        (('"sut.nic" = ["virtio-net", "e1000"]', '"sut.programs" = [["build"]]'), "be a factor"),
        (
            (
                '"sut.nic" = ["virtio-net", "e1000"]',
                '"knobs.offloads" = [{tso = true}, {tso = false}]',
            ),
            'this one is a table: vary its keys instead, factors."knobs.offloads.tso"',
        ),
    ],
)
def test_programs_that_cannot_be(change: tuple[str, str], said: str) -> None:
    assert change[0] in EMULATED
    assert said in complaint(EMULATED.replace(*change))


@pytest.mark.parametrize(
    ("more", "table"),
    [
        ('"sut.kernel" = ["debian", "debian"]', "factors.sut.kernel"),
        ('"sut.cpus" = [1, true]', "factors.sut.cpus"),
        ('"sut.memory" = ["512M", 536870912]', "factors.sut.memory"),
        ('"workloads.udp.message" = ["1K", "2K", 1024]', "factors.workloads.udp.message"),
    ],
)
def test_a_level_stands_once(more: str, table: str) -> None:
    text = complaint(GOOD.replace("[factors]", f"[factors]\n{more}"))
    assert f"a level stands twice in {table}: " in text


def test_a_level_of_one_workload_stands_once() -> None:
    own = 'rate = "100M"\nfactors = { "knobs.mtu" = [1500, 9000, 1500] }'
    text = complaint(GOOD.replace('rate = "100M"', own))
    assert "a level stands twice in workloads.udp.factors.knobs.mtu: 1500." in text


def test_setting_a_factor_fixes_it_at_that_level() -> None:
    study_file = file()
    study_file.override(["sut.nic=rtl8139", "workloads.udp.rate=70M"], quick=False)
    study = study_file.study()
    assert study.factors == {"sut.nic": ("rtl8139",), "workloads.udp.rate": ("70M",)}
    design = make(study, 1)
    assert len(design.plots) == 1
    assert [cell.levels.get("workloads.udp.rate") for cell in design.cells] == [None, "70M"]
    guests = [v for plot in design.plots for v in plot.variants if v.platform == "guest"]
    assert [v.levels for v in guests] == [{"sut.nic": "rtl8139"}]


def test_setting_a_factor_fixes_it_for_workloads_that_vary_it_themselves() -> None:
    own = 'rate = "100M"\nfactors = { "knobs.napi_weight" = [1, 64] }'
    study_file = file(GOOD.replace('rate = "100M"', own))
    study_file.override(["knobs.napi_weight=8"], quick=False)
    assert study_file.study().workloads["udp"].factors == {"knobs.napi_weight": (8,)}


def test_setting_a_part_of_a_factor_is_refused() -> None:
    study_file = file(GOOD.replace("[factors]", '[factors]\n"knobs.thp" = ["always", "never"]'))
    with pytest.raises(InputError, match=r"knobs\.thp is a factor of the study.*\n.*all of knobs"):
        study_file.override(["knobs.thp.defrag=never"], quick=False)


CLAIM = """
[[claims]]
text = "it is cheap"
response = "goodput"
workload = "udp"
platform = "guest"
where = { "sut.nic" = "e1000", "workloads.udp.rate" = "50M" }
op = "below"
value = "5 %"
"""


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ('"goodput"', '"godput"', "there is no response 'godput'. Did you mean 'goodput'?"),
        ('"goodput"', '"elapsed"', "there is no response 'elapsed'."),
        ('"udp"', '"upd"', "there is no workload 'upd'. Did you mean 'udp'? There are: build, udp"),
        ('"guest"', '"gest"', "there is no platform 'gest'. Did you mean 'guest'?"),
        ('"guest"', '"xen"', "there is no platform 'xen'. There are: native, container, guest"),
        ('"sut.nic" =', '"sut.nik" =', "there is no factor 'sut.nik'. Did you mean 'sut.nic'?"),
        ('"e1000"', '"e1001"', "sut.nic: there is no level 'e1001'. Did you mean 'e1000'?"),
        ('"50M"', "50000000", "there is no level '50000000'. There are: 50M, 100M"),
        ("op =", 'against = { "sut.nic" = "ne2k" }\nop =', "sut.nic: there is no level 'ne2k'."),
        ("op =", 'against = { platform = "natve" }\nop =', "Did you mean 'native'?"),
        ("op =", 'measure = "value"\nguest = 2\nop =', "there is no guest 2: at most 1"),
        (
            "op =",
            'measure = "ratio"\nagainst_response = "los"\nop =',
            "there is no response 'los'. Did you mean 'loss'?",
        ),
    ],
)
def test_a_claim_names_what_is_there(right: str, wrong: str, said: str) -> None:
    file(GOOD + CLAIM).study()
    assert right in CLAIM
    text = complaint(GOOD + CLAIM.replace(right, wrong))
    line = (GOOD + CLAIM).splitlines().index('text = "it is cheap"') + 1
    assert text.startswith(f"probe.toml:{line}: claims: 'it is cheap': ")
    assert said in text


def test_claims_on_levels_that_overrides_take_away_stay() -> None:
    for overrides in (["sut.nic=rtl8139"], ["sut.platforms=native,container"]):
        study_file = file(GOOD + CLAIM)
        study_file.override(overrides, quick=False)
        assert len(study_file.study().claims) == 1
    study_file = file(GOOD + CLAIM.replace('"goodput"', '"godput"'))
    study_file.override(["sut.nic=rtl8139"], quick=False)
    with pytest.raises(InputError, match="no response 'godput'"):
        study_file.study()


@pytest.mark.parametrize("name", ["../../evil", "", "a" * 65, "-x", ".x", "a b", "a/b", "x\n"])
def test_a_name_that_cannot_name_a_run_directory(name: str) -> None:
    study_file = file()
    study_file.raw["name"] = name
    with pytest.raises(InputError, match="cannot name a run directory: write at most 64"):
        study_file.study()


@pytest.mark.parametrize(
    ("assignment", "said"),
    [
        ("sut.memory=0", "sut.memory: it must lie within 16M to 64T"),
        ("sut.memory=512", "it must lie within 16M to 64T"),
        ("sut.boot_limit=0", "it must lie within 100 ms to 2592000 s"),
        ("design.precision=500%", "it must lie within 0.0001% to 100%"),
        ("design.time_limit=0", "it must lie within 100 ms to 8760h"),
        ("design.threshold=nan", "nan is not a share"),
        ("workloads.udp.duration=-1", "-1 is not a duration"),
        ("workloads.udp.duration=0", "it must lie within 1 ms to 86400 s"),
        ("workloads.udp.rate=1e400", "inf is not a rate"),
        ("sut.cpus=0", "it must be at least 1 (given: 0)"),
        ("sut.cpus=two", "this is to be a whole number, for example 2 (given: two)"),
        ("sut.cpus=[1, 2]", 'belong in [factors]: "sut.cpus" = [1, 2]'),
        ('sut.nic=["e1000"]', 'belong in [factors]: "sut.nic" = ["e1000"]'),
        ("sut.kernel=5", "this is to be text in quotes"),
        ("sut=3", "this is to be a table, for example { key = value }"),
        ("workloads.udp.segmentation=maybe", "this is to be true or false"),
        ("workloads.udp={}", "the key 'type' is missing"),
        ("factors={'sut.cpus'=[]}", "there are too few: at least 1"),
    ],
)
def test_what_cannot_be_is_said_in_plain_words(assignment: str, said: str) -> None:
    study_file = file(GOOD.partition("[factors]")[0])
    study_file.override([assignment], quick=False)
    with pytest.raises(InputError) as raised:
        study_file.study()
    assert said in str(raised.value)
    assert "Input should" not in str(raised.value)


def test_quick_is_checked_where_it_is_not_asked_for() -> None:
    assert "probe.toml: [quick]: design.trials: there is no such key" in complaint(
        GOOD + '[quick]\n"design.trials" = 3\n'
    )


def test_a_study_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(GOOD, encoding="utf-8-sig")
    assert find(str(tmp_path / "s.toml")).study().name == "probe"


def test_a_factor_without_quotes_is_reported_where_they_stand() -> None:
    study_file = file(GOOD.partition("[factors]")[0])
    study_file.override(["factors={sut.cpus=[1,2]}"], quick=False)
    with pytest.raises(InputError, match=r"""--set 'factors=\{"sut.cpus"=\[1,2\]\}'"""):
        study_file.study()


BILL = """
[bill]
workload = "udp"
response = "goodput"
items = [
    { name = "exits", of = ["exits_per_packet"], price = { workload = "build", response = "elapsed" } },
    { name = "e1000", of = ["vmm_cpu_per_packet"], times = 2, where = { "sut.nic" = "e1000" } },
]
"""


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ('"udp"', '"upd"', "there is no workload 'upd'. Did you mean 'udp'?"),
        ('"exits_per', '"exit_per', "udp has no response 'exit_per_packet'. Did you mean 'exits"),
        ('"elapsed"', '"goodput"', "build has no response 'goodput'"),
        ('"sut.nic"', '"sut.nik"', "'sut.nik' is no factor of udp; its factors: sut.nic"),
        ('of = ["vmm_cpu_per_packet"], ', "", "the item 'e1000' has neither 'of'"),
        ("times = 2", "times = 0", "above 0"),
    ],
)
def test_a_bill_names_what_is_there(right: str, wrong: str, said: str) -> None:
    file(GOOD + BILL).study()
    assert right in BILL
    assert said in complaint(GOOD + BILL.replace(right, wrong))


def test_a_study_has_one_bill_or_several() -> None:
    several = BILL.replace("[bill]", "[[bill]]")
    assert len(file(GOOD + BILL).study().bill) == 1
    assert len(file(GOOD + several + several).study().bill) == 2
    wrong = several.replace('"goodput"', '"godput"')
    assert "udp has no response 'godput'" in complaint(GOOD + several + wrong)


def test_a_time_is_a_number_of_instructions_in_virtual_time_alone() -> None:
    asked = BILL + "instructions = true\n"
    assert "'instructions' is for virtual time" in complaint(GOOD + asked)
    virtual = GOOD.replace('name = "probe"', 'name = "probe"\nmachine = "emulated"')
    file(virtual + asked).study()
    walks = asked + '[emulated]\nwalks = "nehalem"\n'
    assert "page walks take some of it" in complaint(virtual + walks)


EFFECTS = """
[effects]
responses = ["goodput"]
factors = ["sut.nic", "workloads.udp.rate"]
of = "efficiency"
platforms = ["guest"]
"""


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ('"goodput"', '"godput"', "there is no response 'godput'. Did you mean 'goodput'?"),
        (
            '"sut.nic", "wo',
            '"sut.nik", "wo',
            "there is no factor 'sut.nik'. Did you mean 'sut.nic'?",
        ),
        ('["guest"]', '["xen"]', "there is no platform 'xen'. There are: native, container, guest"),
        (
            '["guest"]',
            '["native"]',
            "an efficiency is against native, and there is no other platform",
        ),
        ('"sut.nic", "wo', '"wo', "effects are those of 2 or more factors with two levels each"),
        ("of =", 'workloads = ["upd"]\nof =', "there is no workload 'upd'. Did you mean 'udp'?"),
    ],
)
def test_effects_name_what_is_there(right: str, wrong: str, said: str) -> None:
    file(GOOD + EFFECTS).study()
    assert right in EFFECTS
    text = complaint(GOOD + EFFECTS.replace(right, wrong))
    line = (GOOD + EFFECTS).splitlines().index("[effects]") + 1
    assert text.startswith(f"probe.toml:{line}: effects: ") and said in text


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ('["virtio-net", "e1000"]', '["e1000"]', "sut.nic has one level: give it two in [factors]"),
        ('"sut.nic" = ["virtio-net", "e1000"]', "", "there is no factor 'sut.nic'"),
        ('"5%"', '"5%"\nmin_trials = 1', "design.min_trials"),
    ],
)
def test_effects_need_factors_levels_and_replicates(right: str, wrong: str, said: str) -> None:
    assert said in complaint(GOOD.replace(right, wrong) + EFFECTS)


def test_effects_of_one_factor_need_no_names_to_be_refused() -> None:
    text = complaint(GOOD.replace('"sut.nic" = ["virtio-net", "e1000"]', "") + "[effects]\n")
    assert "and 'workloads.udp.rate' alone has all of them" in text


SHARE = """
[[claims]]
text = "the rate matters most"
response = "goodput"
platform = "guest"
measure = "share"
factor = "workloads.udp.rate"
op = "largest"
"""


def test_a_claim_about_a_share_needs_effects_that_cover_it() -> None:
    file(GOOD + SHARE).study()
    for right, wrong, said in (
        ("udp.rate", "udp.rat", "'workloads.udp.rat' is none of 2 or more factors"),
        ("goodput", "cpu_per_gigabyte", "[effects] does not cover cpu_per_gigabyte"),
        ('"guest"', '"xen"', "there is no platform 'xen'"),
    ):
        assert said in complaint(GOOD + SHARE.replace(right, wrong))
    for effects, said in (
        ('platforms = ["native"]', "name it in effects.platforms"),
        ('responses = ["cpu_per_gigabyte"]', "name it in effects.responses"),
        ('workloads = ["build"]\nresponses = ["elapsed"]', "name it in effects.responses"),
    ):
        assert said in complaint(f"{GOOD}\n[effects]\n{effects}\n{SHARE}")


def test_a_share_of_one_factor_s_levels_is_refused() -> None:
    one = GOOD.replace('["virtio-net", "e1000"]', '["e1000"]')
    assert "is none of 2 or more factors with two levels each" in complaint(one + SHARE)


MILLION = "[factors]\n" + "".join(
    f'"{path}" = {list(levels)}\n'
    for path, levels in {
        "knobs.mtu": range(1000, 1100),
        "workloads.udp.message": range(100, 200),
        "workloads.udp.duration": range(1, 101),
    }.items()
)


@pytest.mark.parametrize("overrides", [[], ["design.min_trials=2", "design.max_trials=2"]])
def test_a_million_cells_are_refused_before_one_is_made(overrides: list[str]) -> None:
    text = GOOD.partition("[factors]")[0].replace('[workloads.build]\ntype = "command"', "")
    text = text.replace('command = ["make", "-j2"]', "") + MILLION
    study_file = file(text)
    study_file.override(overrides, quick=False)
    began = time.process_time()
    with pytest.raises(InputError) as caught:
        study_file.study()
    assert time.process_time() - began < 1
    said = str(caught.value)
    assert caught.value.status == 2
    assert "3,000,000 cells (100 x 100 x 100 levels, 1 workload, 3 platforms)" in said
    assert f"with {2 if overrides else 5} trials of each" in said and "days without boots" in said
    assert "[tune.knobs]" in said


def test_guests_that_differ_side_by_side_are_cells_of_their_own() -> None:
    """Two NICs are two guests beside one native and one container; two rates are of one workload."""
    study = file().study()
    assert cells(study) == make(study, 1).trials_per_round == (1 + 1 + 2) * (1 + 2)


def test_effects_of_levels_that_overrides_take_away_are_left_out() -> None:
    study_file = file(GOOD + EFFECTS)
    study_file.override(["sut.nic=e1000"], quick=False)
    assert study_file.study().effects is not None


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("[knobs]\nmtu = 67", "it must be at least 68"),
        ("[bench]\nmtu = 67", "it must be at least 68"),
        (
            '[bench]\ntopology = "routers"\nfamily = "ipv6"\n[knobs]\nmtu = 1279',
            "IPv6 needs an MTU of 1280 bytes, not 1279",
        ),
        (
            "[knobs]\nmtu = 16111",
            "16111 bytes is too much for sut.nic = 'e1000': its driver takes 16110",
        ),
        ("[bench]\nmtu = 16111", "take a smaller one, or virtio-net"),
    ],
)
def test_an_mtu_that_cannot_be_had_is_refused(more: str, said: str) -> None:
    text = GOOD.replace('rate = "100M"', 'rate = "100M"\ndirection = "both"')
    file(f"{text}\n[knobs]\nmtu = 68").study()
    assert said in complaint(f"{text}\n{more}")


def test_tcp_needs_packets_of_88_bytes() -> None:
    text = GOOD.replace('protocol = "udp"\nrate = "100M"', 'protocol = "tcp"')
    text = text[: text.index("[factors]")]
    file(f"{text}\n[knobs]\nmtu = 88").study()
    said = complaint(f"{text}\n[knobs]\nmtu = 87")
    assert "an MTU of 87 bytes is too little for TCP (udp)" in said


def test_each_level_of_the_mtu_meets_each_nic() -> None:
    text = GOOD.replace("[factors]", '[factors]\n"knobs.mtu" = [1500, 9000]')
    file(text).study()
    text = text.replace('"e1000"]', '"pcnet"]')
    assert "9000 bytes is too much for sut.nic = 'pcnet': its driver takes 1500" in complaint(text)


def test_datagrams_never_wait_for_others() -> None:
    text = GOOD.replace('rate = "100M"', 'rate = "100M"\nnodelay = false')
    assert "'nodelay' is of TCP" in complaint(text)
    tcp = text.replace('protocol = "udp"', 'protocol = "tcp"')
    assert file(tcp).study().workloads["udp"].nodelay is False

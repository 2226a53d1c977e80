//! What both sides have to know and neither decides alone: names and limits. Python's are made of them.

#[cfg(feature = "schema")]
use schemars::{Schema, json_schema};

macro_rules! constants {
    ($($(#[doc = $text:literal])+ $name:ident: $type:ty = $value:expr;)+) => {
        $($(#[doc = $text])+ pub const $name: $type = $value;)+

        /// Each constant with its value and what it says, in the form of a schema.
        #[cfg(feature = "schema")]
        pub fn constants() -> Schema {
            let mut properties = json_schema!({});
            $(properties.insert(stringify!($name).into(), json_schema!({
                "description": concat!($($text, "\n"),+).trim().replace("\n ", "\n"),
                "const": $value,
            }).to_value());)+
            json_schema!({
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "title": "Constants",
                "description": "What both sides have to know and neither decides alone.",
                "properties": properties,
            })
        }
    };
}

constants! {
    /// Version of the protocol. Both sides refuse a partner that speaks another one.
    PROTOCOL: u32 = 1;

    /// Longest line of a plan and of records, in bytes, newline included. What a guest sends is
    /// untrusted, so every reader enforces this: a longer line fails the node that sent it.
    MAX_LINE: usize = 1 << 20;

    /// Most bytes of records that one node may send during one trial. More fails the trial.
    MAX_TRIAL_BYTES: usize = 64 << 20;

    /// Bytes kept of a command's standard output and of its standard error: the last ones.
    MAX_OUTPUT: usize = 64 << 10;

    /// Lines kept of a guest's console: the last ones.
    MAX_CONSOLE_LINES: usize = 40;

    /// Bytes of a page of `2M`.
    HUGE_PAGE: u64 = 2 << 20;

    /// NICs of an emulated PC: eight functions of each of its 23 free slots.
    MOST_NICS: usize = 184;

    /// Bytes with which a guest of Xen boots, with an initramfs of the size of ours.
    LEAST_DOMAIN_MEMORY: u64 = 112 << 20;

    /// Exit status of an agent that may not have the user namespaces that it needs.
    REFUSED: i32 = 3;

    /// How everything begins that an agent prints for people.
    AGENT_PREFIX: &str = "hypertare-agent: ";

    /// How everything begins that an agent prints on a guest's console.
    CONSOLE_PREFIX: &str = "hypertare: ";

    /// File of a run, in the run's directory.
    RUN_FILE: &str = "run.sqlite";

    /// By which SQLite's header says that a file is one of a run ("tare").
    RUN_APPLICATION: u32 = 0x7461_7265;

    /// The plan that an emulated machine finds in its initramfs.
    PLAN_FILE: &str = "/plan.jsonl";

    /// What serves a guest's files by virtiofs, where Debian's qemu-system-common has it.
    VIRTIOFSD: &str = "/usr/lib/qemu/virtiofsd";

    /// Where kernel modules and their index are in an initramfs.
    MODULES_DIRECTORY: &str = "/modules";

    /// Parameter of the kernel's command line: the modules to load, separated by commas.
    MODULES_PARAMETER: &str = "hypertare.modules=";

    /// Parameter: what the kernel's random numbers of an emulated machine start from.
    SEED_PARAMETER: &str = "hypertare.seed=";

    /// The project's own kernel module, which sets NAPI weights.
    NAPI_MODULE: &str = "hypertare_napi";

    /// File in which this module has its weight.
    NAPI_WEIGHT_FILE: &str = "/sys/module/hypertare_napi/parameters/weight";

    /// Release of Xen whose programs an image holds.
    XEN_RELEASE: &str = "4.17";

    /// Script of an image that joins the interface of a guest of Xen.
    XEN_VIF_SCRIPT: &str = "/xen/vif";

    /// Script of an image that says on which device the disk of a guest of Xen stands.
    XEN_BLOCK_SCRIPT: &str = "/xen/block";
}

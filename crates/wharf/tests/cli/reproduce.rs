//! `wharf reproduce`.

use crate::support::Place;

#[test]
fn reproduce_lists_its_figures() {
    let text = Place::new().ok(&["reproduce", "--list"]);
    for figure in [
        "scala/fig4a",
        "scala/table2",
        "scala/fig11a",
        "scala/fig18b",
        "scale/fig1 ",
        "scale/table1",
        "scale/fig17a",
    ] {
        assert!(text.contains(figure), "{text}");
    }
    assert!(text.contains("USENIX ATC 2024"), "{text}");
    assert!(text.contains("EuroSys 2024"), "{text}");
}

#[test]
fn reproduce_refuses_what_it_does_not_know_and_names_what_is_near() {
    let place = Place::new();
    let line = place.refused(&["reproduce", "scala/fig12"]);
    assert!(line.contains("the nearest is 'scala/fig12a'"), "{line}");
    let line = place.refused(&["reproduce", "scala/fig12a", "--scale=3"]);
    assert!(line.contains("--scale 3: give a power of two"), "{line}");
    let line = place.refused(&["reproduce", "scala/fig12a", "--trace=nowhere.csv"]);
    assert!(line.contains("nowhere.csv"), "{line}");
    let line = place.refused(&["reproduce", "scala/fig12a", "--costs=cheap"]);
    assert!(line.contains("cheap"), "{line}");
}

#[test]
fn reproduce_of_a_trace_writes_pages_that_a_second_run_writes_again() {
    let place = Place::new();
    let trace = place.write(
        "mine.trace",
        "# wharf trace 1\n0 W 0 8192 0\n5 R 0 4096 0\n9 R 65536 4096 0\n",
    );
    let trace = format!("--trace={}", trace.display());
    let run = |out: &str| {
        let arguments = [
            "reproduce",
            "scala/fig12a",
            "--scale=1024",
            &trace,
            "--out",
            out,
        ];
        let text = place.ok(&arguments);
        assert!(text.contains("mine.trace"), "{text}");
        let file = place.path().join(out).join("scala/fig12a.json");
        std::fs::read_to_string(file).expect("the figure's data")
    };
    assert_eq!(run("a"), run("b"));
    let page = std::fs::read_to_string(place.path().join("a/scala/fig12a.html")).expect("a page");
    assert!(page.contains("Every workload is the trace mine.trace"));
    assert!(place.path().join("a/scala/index.html").exists());
}

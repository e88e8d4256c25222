//! What is an order, what is none, and why.

use super::*;

const LIMITS: Limits = Limits { max_bytes: 10_000, max_lines: 3, max_quantity: 1_000 };

fn order(body: &str) -> Order {
    parse(body.as_bytes(), &LIMITS).expect("an order")
}

fn code(body: impl AsRef<[u8]>) -> &'static str {
    parse(body.as_ref(), &LIMITS).expect_err("malformed").code.as_str()
}

fn detail(body: &str) -> String {
    parse(body.as_bytes(), &LIMITS).expect_err("malformed").detail
}

#[test]
fn the_short_form_is_an_order_of_one_line() {
    let short = order(r#"{"order_id": "A-1", "sku": "S", "quantity": 2}"#);
    let long = order(r#"{"order_id": "A-1", "lines": [{"sku": "S", "quantity": 2}]}"#);
    assert_eq!(short, long);
    assert_eq!((short.id.as_str(), short.lines[0].quantity), ("A-1", 2));
}

#[test]
fn lines_of_one_sku_are_summed_where_it_is_first_seen() {
    let order = order(
        r#"{"order_id":"A","lines":[{"sku":"X","quantity":1},{"sku":"Y","quantity":2},{"sku":"X","quantity":3}]}"#,
    );
    let lines: Vec<_> = order.lines.iter().map(|line| (line.sku.as_str(), line.quantity)).collect();
    assert_eq!(lines, [("X", 4), ("Y", 2)]);
}

#[test]
fn the_content_hash_ignores_the_order_of_lines_but_not_the_hold() {
    let hash = |body| order(body).content_hash;
    let xy = hash(r#"{"order_id":"A","lines":[{"sku":"X","quantity":1},{"sku":"Y","quantity":2}]}"#);
    let yx = hash(r#"{"order_id":"B","lines":[{"sku":"Y","quantity":2},{"sku":"X","quantity":1}]}"#);
    let none = hash(r#"{"order_id":"A","sku":"X","quantity":1}"#);
    let zero = hash(r#"{"order_id":"A","sku":"X","quantity":1,"hold_seconds":0}"#);
    assert_eq!(xy, yx);
    assert_ne!(none, zero);
    assert_eq!(none, hash(r#"{"order_id":"A","sku":"X","quantity":1,"hold_seconds":null}"#));
}

#[test]
fn harmless_extras_are_tolerated() {
    order("\u{feff}{\"order_id\":\"A\",\"sku\":\"X\",\"quantity\":1,\"note\":{\"deep\":[1,2.5,null]}}\r\n");
    order(r#"{"order_id":"A","sku":"X","quantity":1,"lines":null,"Quantity":"7","x":1,"x":2}"#);
}

#[test]
fn ids_are_kept_byte_for_byte() {
    let order = order(r##"{"order_id":" #1001 ","sku":"85123a ","quantity":1}"##);
    assert_eq!((order.id.as_str(), order.lines[0].sku.as_str()), (" #1001 ", "85123a "));
}

#[test]
fn what_is_not_json_has_the_code_json() {
    for body in [
        "",
        "{",
        "hello",
        r#"{"order_id":"A","sku":"X","quantity":1} x"#,
        r#"{"order_id":"A","sku":"X","quantity":01}"#,
        r#"{"order_id":"A","sku":"X","quantity":1,}"#,
        r#"{"order_id":"A","sku":"X","quantity":1,"x":NaN}"#,
        r#"{"order_id":"A","sku":"X","quantity":1,"x":1e999}"#,
        r#"{"order_id":"A","sku":"X","quantity":1,"x":{"\ud800":1}}"#,
        "{\"order_id\":\"A\nB\",\"sku\":\"X\",\"quantity\":1}",
        "\u{feff}\u{feff}{\"order_id\":\"A\",\"sku\":\"X\",\"quantity\":1}",
    ] {
        assert_eq!(code(body), "json", "{body}");
    }
}

#[test]
fn what_is_not_utf8_has_the_code_encoding() {
    assert_eq!(code(b"{\"order_id\":\"\xff\"}"), "encoding");
    assert_eq!(code([0xff, 0xfe, b'{', 0]), "encoding");
}

#[test]
fn what_is_too_large_is_not_read() {
    let mut body = br#"{"order_id":"A","sku":"X","quantity":1}"#.to_vec();
    body.resize(LIMITS.max_bytes, b' ');
    assert!(parse(&body, &LIMITS).is_ok(), "the limit itself is allowed");
    body.push(b' ');
    assert_eq!(code(body), "too-large");
}

#[test]
fn json_that_is_not_an_order_says_what_is_wrong() {
    let cases = [
        (r#"["A","X",1]"#, "an order object"),
        (r#"{"sku":"X","quantity":1}"#, "order_id is missing"),
        (r#"{"order_id":17,"sku":"X","quantity":1}"#, "order_id: invalid type"),
        (r#"{"order_id":"","sku":"X","quantity":1}"#, "order_id: an id is empty"),
        (r#"{"order_id":"A\u0000","sku":"X","quantity":1}"#, "U+0000"),
        (r#"{"order_id":"A","order_id":"B","sku":"X","quantity":1}"#, "duplicate field `order_id`"),
        (r#"{"order_id":"A","sku":"X","quantity":0}"#, "at least 1"),
        (
            r#"{"order_id":"A","sku":"X","quantity":-1}"#,
            "quantity: invalid value: integer `-1`, expected a whole number",
        ),
        (r#"{"order_id":"A","sku":"X","quantity":1.0}"#, "quantity: invalid type: floating point `1.0`"),
        (r#"{"order_id":"A","sku":"X","quantity":1e0}"#, "without fraction, exponent or quotes"),
        (r#"{"order_id":"A","sku":"X","quantity":"1"}"#, "quantity: invalid type: string"),
        (r#"{"order_id":"A","sku":"X","quantity":true}"#, "quantity: invalid type: boolean"),
        (r#"{"order_id":"A","sku":"X","quantity":99999999999999999999}"#, "below 2^64"),
        (r#"{"order_id":"A","sku":"X","quantity":18446744073709551615}"#, "18446744073709551615, more than 1000"),
        (r#"{"order_id":"A","sku":"X","quantity":1001}"#, "quantity of \"X\" is 1001, more than 1000"),
        (r#"{"order_id":"A","sku":17,"quantity":1}"#, "sku: invalid type"),
        (r#"{"order_id":["A"],"sku":"X","quantity":1}"#, "order_id: invalid type"),
        (r#"{"order_id":"A","quantity":1}"#, "sku is missing"),
        (r#"{"order_id":"A"}"#, "neither sku and quantity nor lines"),
        (r#"{"order_id":"A\u0085","sku":"X","quantity":1}"#, "U+0085"),
        (r#"{"order_id":"A","sku":"X\n","quantity":1}"#, "sku: an id holds the control character U+000A"),
        (r#"{"order_id":"A","sku":"","quantity":1}"#, "sku: an id is empty"),
        (r#"{"order_id":"A","lines":[{"sku":"X","quantity":1,"sku":"Y"}]}"#, "lines[0]: duplicate field `sku`"),
        (r#"{"order_id":"A","lines":[{"sku":"X","quantity":1},{"sku":null,"quantity":1}]}"#, "missing field `sku`"),
        (r#"{"order_id":"A","lines":{"sku":"X","quantity":1}}"#, "lines: invalid type: map"),
        (r#"{"order_id":"A","sku":"X","quantity":1,"hold_seconds":"60"}"#, "hold_seconds: invalid type"),
        ("null", "an order object"),
        ("17", "an order object"),
        (r#"{"order_id":"A","sku":"X"}"#, "quantity is missing"),
        (r#"{"order_id":"A","lines":[]}"#, "lines is empty"),
        (r#"{"order_id":"A","lines":[["X",1]]}"#, "a line object"),
        (r#"{"order_id":"A","lines":[{"sku":"X"}]}"#, "missing field `quantity`"),
        (r#"{"order_id":"A","sku":"X","quantity":1,"lines":[{"sku":"X","quantity":1}]}"#, "as well as"),
        (r#"{"order_id":"A","sku":"X","quantity":1,"hold_seconds":-5}"#, "hold_seconds: invalid value"),
        (r#"{"order_id":"A","sku":"X","quantity":1,"hold_seconds":999999999999}"#, "ten years"),
        (r#"{"order_id":"A","lines":[{"sku":"X","quantity":600},{"sku":"X","quantity":600}]}"#, "sum up"),
    ];
    for (body, part) in cases {
        assert_eq!(code(body), "order", "{body}");
        assert!(detail(body).contains(part), "{body}: {}", detail(body));
    }
}

#[test]
fn too_many_lines_and_too_long_ids_are_refused() {
    let line = r#"{"sku":"X","quantity":1}"#;
    assert!(detail(&format!(r#"{{"order_id":"A","lines":[{line},{line},{line},{line}]}}"#)).contains("4 lines"));
    order(&format!(r#"{{"order_id":"{}","sku":"{}é","quantity":1}}"#, "x".repeat(255), "x".repeat(253)));
    let wide = "é".repeat(128);
    assert!(detail(&format!(r#"{{"order_id":"A","sku":"{wide}","quantity":1}}"#)).contains("256 bytes"));
    let long = "x".repeat(MAX_ID_BYTES + 1);
    assert!(detail(&format!(r#"{{"order_id":"{long}","sku":"X","quantity":1}}"#)).contains("256 bytes"));
}

#[test]
fn an_ignored_field_may_not_be_nested_without_end() {
    let deep = format!(r#"{{"order_id":"A","sku":"X","quantity":1,"x":{}{}}}"#, "[".repeat(1_000), "]".repeat(1_000));
    assert_eq!(code(&deep), "json");
    assert!(detail(&deep).contains("recursion limit"), "{}", detail(&deep));
    // The order itself is the first of the 127 levels that are read.
    let nested = |levels| {
        format!(r#"{{"order_id":"A","sku":"X","quantity":1,"x":{}{}}}"#, "[".repeat(levels), "]".repeat(levels))
    };
    order(&nested(126));
    assert_eq!(code(nested(127)), "json");
}

"""Write a drawing as SVG: values on hover and on keyboard focus by CSS alone, dark where the reader's system is."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree.ElementTree import Element, SubElement, tostring

from rlx.report.safe_text import shown
from rlx.report.shapes import (
    DARK,
    LIGHT,
    Drawing,
    DrawnText,
    FilledArea,
    HoverLine,
    HoverStrip,
    Mark,
    Shape,
    Stroke,
    outline,
    text_width,
)

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif"
_TIP_SIZE, _TIP_ROW, _TIP_PAD = 11.5, 17.0, 8.0
_MOST_ROWS = 12


def svg_file(scene: Drawing, made_by: str) -> bytes:
    """Return a complete file, which any program that reads SVG can show."""
    root = svg_element(scene, "chart")
    root.set("width", _number(scene.width))
    root.set("height", _number(scene.height))
    SubElement(root, "style").text = style_rules()
    metadata = Element("metadata")
    metadata.text = made_by
    root.insert(0, Element("rect", {"width": "100%", "height": "100%", "fill": LIGHT["paper"], "class": "paper"}))
    root.insert(0, metadata)
    content: bytes = tostring(root, encoding="UTF-8", xml_declaration=True)
    return content


def svg_markup(scene: Drawing, name: str) -> str:
    """Return the element for an HTML page; `name` must be unique there. Needs `style_rules` in the page's style."""
    return tostring(svg_element(scene, name), encoding="unicode")


def style_rules() -> str:
    """Return the rules for hover, focus and dark colours; light colours are attributes, for programs without CSS."""
    dark = "".join(
        f".f-{ink}{{fill:{value}}}.l-{ink}{{stroke:{value}}}.paper{{fill:{DARK['paper']}}}"
        for ink, value in DARK.items()
    )
    return (
        ".column .shown{visibility:hidden;pointer-events:none}"
        ".column:hover .shown,.column:focus .shown{visibility:visible}"
        ".column:focus{outline:none}.column:focus-visible .hit{stroke:#0067a3;stroke-width:2}"
        f"@media screen and (prefers-color-scheme:dark){{{dark}.column:focus-visible .hit{{stroke:#56b4e9}}}}"
    )


def svg_element(scene: Drawing, name: str) -> Element:
    attributes = {
        "xmlns": "http://www.w3.org/2000/svg",
        "viewBox": f"0 0 {_number(scene.width)} {_number(scene.height)}",
        "role": "group",
        "aria-labelledby": f"{name}-title",
        "aria-describedby": f"{name}-desc",
        "font-family": FONT,
    }
    root = Element("svg", attributes)
    SubElement(root, "title", id=f"{name}-title").text = shown(scene.title)
    SubElement(root, "desc", id=f"{name}-desc").text = shown(scene.description)
    drawing = SubElement(root, "g", {"aria-hidden": "true"})
    drawing.extend(_shape(shape) for shape in scene.shapes)
    root.extend(_column(column, scene) for column in scene.columns)
    return root


def _shape(shape: Shape) -> Element:
    match shape:
        case Stroke():
            line = Element("polyline", {"points": _points(shape.points), "fill": "none"})
            if shape.opacity < 1:
                line.set("stroke-opacity", _number(shape.opacity))
            return _stroked(line, shape.ink, shape.width, shape.dash)
        case FilledArea():
            area = Element("polygon", {"points": _points(shape.points), "fill-opacity": _number(shape.opacity)})
            return _filled(area, shape.ink)
        case Mark():
            mark = Element("polygon", {"points": _points(outline(shape))})
            return _stroked(_filled(mark, shape.ink if shape.filled else "paper"), shape.ink, 1.6)
        case DrawnText():
            return _label(shape)


def _label(label: DrawnText) -> Element:
    x, y = label.at
    attributes = {"x": _number(x), "y": _number(y), "font-size": _number(label.size), "text-anchor": label.anchor}
    if label.bold:
        attributes["font-weight"] = "600"
    # A name from right to left must not reverse the text beside it.
    element = _filled(Element("text", {**attributes, "unicode-bidi": "isolate"}), label.ink)
    element.text = shown(label.text)
    if label.crossed_out:
        SubElement(element, "tspan", {"text-decoration": "line-through"}).text = shown(label.crossed_out)
    return element


def _column(column: HoverStrip, scene: Drawing) -> Element:
    """Make a group that can have the keyboard's focus; its box is drawn above everything before it."""
    said = shown(f"{column.title}: {'; '.join(row.text for row in column.rows)}")
    group = Element("g", {"class": "column", "tabindex": "0", "role": "img", "aria-label": said})
    width, height = column.right - column.left, column.bottom - column.top
    box = {"x": column.left, "y": column.top, "width": width, "height": height}
    SubElement(group, "rect", {"class": "hit", "fill": "transparent", **_numbers(box)})
    tip = SubElement(group, "g", {"class": "shown", "visibility": "hidden"})
    tip.append(_shape(Stroke(((column.x, column.top), (column.x, column.bottom)), "axis")))
    tip.extend(_tip(column, scene))
    return group


def _tip(column: HoverStrip, scene: Drawing) -> Iterator[Element]:
    """Draw a box with the values, beside the rule and inside the drawing."""
    rows = column.rows[:_MOST_ROWS]
    more = len(column.rows) - len(rows)
    title = f"{column.title} (and {more} more)" if more else column.title
    texts = [title, *(row.text for row in rows)]
    width = min(scene.width - 8, 34 + max(text_width(shown(text, 90), _TIP_SIZE) for text in texts))
    left = column.x + 10 if column.x + 10 + width < scene.width else column.x - 10 - width
    left = max(4.0, min(left, scene.width - width - 4))
    height = 2 * _TIP_PAD + _TIP_ROW * len(texts)
    top = max(4.0, min(column.top + 8, scene.height - height - 4))
    box = {"x": left, "y": top, "width": width, "height": height, "rx": 5}
    yield _stroked(_filled(Element("rect", _numbers(box)), "paper"), "axis", 1)
    y = top + _TIP_PAD + 12
    yield _shape(DrawnText((left + _TIP_PAD, y), title, size=_TIP_SIZE, bold=True))
    for index, row in enumerate(rows, start=1):
        yield from _tip_row(row, left + _TIP_PAD, y + index * _TIP_ROW)


def _tip_row(row: HoverLine, x: float, y: float) -> Iterator[Element]:
    yield _shape(Mark((x + 5, y - 4), row.sign, row.ink, row.filled, radius=3.5))
    name = f"{shown(row.name, 60)}: "
    text, crossed_out = (name, row.said) if row.excluded else (name + row.said, "")
    yield _shape(DrawnText((x + 16, y), text, size=_TIP_SIZE, crossed_out=crossed_out))


def _stroked(element: Element, ink: str, width: float, dash: str = "") -> Element:
    element.set("stroke", LIGHT[ink])
    element.set("stroke-width", _number(width))
    element.set("stroke-linejoin", "round")
    if dash:
        element.set("stroke-dasharray", dash)
    return _classed(element, f"l-{ink}")


def _filled(element: Element, ink: str) -> Element:
    element.set("fill", LIGHT[ink])
    return _classed(element, f"f-{ink}")


def _classed(element: Element, name: str) -> Element:
    element.set("class", f"{element.get('class', '')} {name}".strip())
    return element


def _points(points: tuple[tuple[float, float], ...]) -> str:
    return " ".join(f"{_number(x)},{_number(y)}" for x, y in points)


def _numbers(values: dict[str, float]) -> dict[str, str]:
    return {name: _number(value) for name, value in values.items()}


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")

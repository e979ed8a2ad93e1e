"""Tables of studies in results/ whose rows are known by some of their columns, and figures of them: what scripts/amount-figure and scripts/frontier-figure share."""
import csv
import subprocess


def read_table(path, key):
    """{values of the columns `key`: row}; empty where there is no file yet."""
    if not path.exists():
        return {}
    with open(path, newline="") as file:
        return {tuple(row[name] for name in key): row for row in csv.DictReader(file)}


def write_table(path, rows, columns, order):
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, columns, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(sorted(rows.values(), key=order))


def begin_panels(figure, count):
    """The first lines of a gnuplot script that draws `count` panels, up to three beside one another."""
    across = count if count < 4 else 2
    return [f"set terminal svg size {330 * across},{330 * -(-count // across)} font 'sans-serif,12' background 'white'", f"set output '{figure}'",
            f"set multiplot layout {-(-count // across)},{across}", "set border 3 lw 0.8", "set tics nomirror scale 0.5", "set logscale xy", "set format y '%g'"]


def curve(name, points, style, title):
    """(lines that define the data, how it is plotted) of one curve with points; title None: not in the key."""
    data = [f"${name} << END", *(f"{x} {y}" for x, y in points), "END"]
    return data, f"${name} with linespoints lw 2 ps 0.6 {style} " + ("notitle" if title is None else f"title '{title}'")


def draw(script):
    subprocess.run(["gnuplot"], input="\n".join(script), text=True, check=True)

/** A plain table, dense, that scrolls sideways where it must. */
import type { ReactNode } from "react";

export type Column<T> = {
  key: string;
  title: string;
  cell: (row: T) => ReactNode;
  /** Numbers stand at the right. */
  right?: boolean;
  /** Left out on a phone. */
  wide?: boolean;
};

type Props<T> = { label: string; columns: ReadonlyArray<Column<T>>; rows: readonly T[]; rowKey: (row: T) => string };

export function Table<T>({ label, columns, rows, rowKey }: Props<T>) {
  return (
    <div
      className="overflow-x-auto rounded-lg border border-line bg-surface"
      tabIndex={0}
      role="region"
      aria-label={label}
    >
      <table className="w-full border-collapse text-left">
        <thead>
          <tr className="border-b border-line text-muted">
            {columns.map((column) => (
              <th
                key={column.key}
                scope="col"
                className={`px-3 py-1.5 font-medium whitespace-nowrap ${classOf(column)}`}
              >
                {column.title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={rowKey(row)} className="border-b border-line last:border-0">
              {columns.map((column) => (
                <td key={column.key} className={`px-3 py-1.5 align-top ${classOf(column)}`}>
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function classOf<T>(column: Column<T>): string {
  return `${column.right ? "text-right tabular-nums" : ""} ${column.wide ? "max-sm:hidden" : ""}`;
}

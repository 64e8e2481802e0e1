/** One of several names, or none of them. */
import { useId } from "react";

type Props = {
  label: string;
  /** What it means to choose none. */
  none: string;
  values: readonly string[];
  value: string;
  onChoose: (value: string) => void;
};

export function Choice({ label, none, values, value, onChoose }: Props) {
  const id = useId();
  return (
    <div className="min-w-0">
      <label htmlFor={id} className="mb-1 block font-medium">
        {label}
      </label>
      <select
        id={id}
        value={values.includes(value) ? value : ""}
        onChange={(event) => onChoose(event.target.value)}
        className="w-full rounded-md border border-line-strong bg-surface px-2 py-1.5 max-sm:text-base"
      >
        <option value="">{none}</option>
        {values.map((one) => (
          <option key={one} value={one}>
            {one}
          </option>
        ))}
      </select>
    </div>
  );
}

/** All tasks, newest first, with filters that stand in the address. */
import { useInfiniteQuery } from "@tanstack/react-query";
import { useSearchParams } from "react-router";
import { tasksQuery } from "@/api/tasks";
import { Button } from "@/parts/Button";
import { Empty } from "@/parts/Empty";
import { Loading } from "@/parts/Loading";
import { ProblemNote } from "@/parts/ProblemNote";
import { moveAmongRows } from "@/parts/rows";
import { Title } from "@/parts/Title";
import { t } from "@/texts/texts";
import { FilterBar } from "./FilterBar";
import { filtersOf } from "./filters";
import { TaskLine } from "./TaskLine";

export function TasksView() {
  const [params] = useSearchParams();
  const filters = filtersOf(params);
  const filtered = Object.keys(filters).length > 0;
  const found = useInfiniteQuery(tasksQuery(filters));
  const tasks = found.data?.pages.flatMap((page) => page.items);
  return (
    <>
      <Title text={t.tasks.title} />
      <FilterBar />
      {found.error === null ? null : <ProblemNote error={found.error} onRetry={() => void found.refetch()} />}
      {tasks === undefined ? (
        found.error === null ? (
          <Loading />
        ) : null
      ) : tasks.length === 0 && !found.hasNextPage ? (
        filtered ? (
          <Empty title={t.tasks.noneFits} />
        ) : (
          <Empty title={t.tasks.none}>{t.tasks.noneWhy}</Empty>
        )
      ) : (
        <div className="overflow-hidden rounded-lg border border-line bg-surface">
          <table className="block w-full sm:table" onKeyDown={moveAmongRows}>
            <thead className="max-sm:sr-only">
              <tr className="border-b border-line text-left text-muted">
                <Head text={t.tasks.columns.task} />
                <Head text={t.tasks.columns.status} />
                <Head text={t.tasks.columns.progress} />
                <Head text={t.tasks.columns.waits} wide />
                <Head text={t.tasks.columns.cost} right wide />
                <Head text={t.tasks.columns.age} right />
              </tr>
            </thead>
            <tbody className="max-sm:block">
              {tasks.map((task) => (
                <TaskLine key={task.id} task={task} />
              ))}
            </tbody>
          </table>
        </div>
      )}
      {found.hasNextPage ? (
        <Button
          className="mt-3 self-center"
          disabled={found.isFetchingNextPage}
          onClick={() => void found.fetchNextPage()}
        >
          {found.isFetchingNextPage ? t.tasks.searching : t.tasks.more}
        </Button>
      ) : null}
    </>
  );
}

function Head({ text, right = false, wide = false }: { text: string; right?: boolean; wide?: boolean }) {
  return (
    <th scope="col" className={`px-3 py-1.5 font-medium ${right ? "text-right" : ""} ${wide ? "max-lg:hidden" : ""}`}>
      {text}
    </th>
  );
}
